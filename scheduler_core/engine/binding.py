"""The binding cycle: Reserve and Permit of a placed pod, and the writes of PreBind, Bind and PostBind."""

from __future__ import annotations

import msgspec

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.profile import Agenda, Profile
from scheduler_core.framework.status import SUCCESS, Status
from scheduler_core.model.writes import Write


class ReservedPod(msgspec.Struct, frozen=True):
    """A pod that passed Reserve and Permit and is assumed on its node, with the writes of its binding."""

    cycle: Cycle
    slot: int
    bind: Write
    pre_bind: tuple[Write, ...]
    post_bind: tuple[Write, ...]


def reserve_plugins(agenda: Agenda, cycle: Cycle, slot: int) -> Status:
    """Run Reserve and Permit: the first status that is not a success, else SUCCESS."""
    for plugin in agenda.reserve:
        cycle.calling = (plugin.name, "reserve")
        status = plugin.reserve(cycle, slot)
        if not status.ok:
            return status.of(plugin.name)
    for permit in agenda.permit:
        cycle.calling = (permit.name, "permit")
        status, _ = permit.permit(cycle, slot)
        if not status.ok:
            return status.of(permit.name)
    return SUCCESS


def writes_around(profile: Profile, agenda: Agenda, cycle: Cycle, slot: int) -> ReservedPod:
    """Collect the writes of PreBind, Bind and PostBind. Raises ValueError if no plugin binds."""
    pre_bind: list[Write] = []
    for plugin in agenda.pre_bind:
        cycle.calling = (plugin.name, "preBind")
        pre_bind.extend(plugin.pre_bind(cycle, slot))
    bind: Write | None = None
    for binder in profile.bind:
        cycle.calling = (binder.name, "bind")
        bind = binder.bind(cycle, slot)
        if bind is not None:
            break
    if bind is None:
        raise ValueError("no bind plugin answered")
    post_bind: list[Write] = []
    for after in agenda.post_bind:
        cycle.calling = (after.name, "postBind")
        post_bind.extend(after.post_bind(cycle, slot))
    return ReservedPod(cycle, slot, bind, tuple(pre_bind), tuple(post_bind))
