"""The checks of measured load and of nodes: how many nodes refuse a pod, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.answers.why.numbers import RoomNumbers, profile_of
from scheduler_core.answers.why.rung import BLOCKED, OK, UNKNOWN, Rung
from scheduler_core.errors import MusterError
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits
from scheduler_core.model.names import LOAD_AWARE_SCHEDULING
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.simulate.world import Simulation

_LOAD: Final = "load"
_NODES: Final = "nodes"


class Refusals(msgspec.Struct, frozen=True):
    """What a filter plugin refuses: nodes per reason, and nodes in all."""

    plugin: str
    nodes: int
    reasons: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The reasons with their numbers of nodes."""
        return ", ".join(f"{count} {reason}" for reason, count in self.reasons)


def refusals_of(simulation: Simulation, pods: Sequence[Pod]) -> tuple[Refusals, ...]:
    """What each filter refuses the first pod, whatever the other filters say."""
    profile = profile_of(simulation, pods)
    if profile is None:
        return ()
    bits, counted = _bits(simulation, profile, pods[0]), []
    nodes = simulation.state.nodes
    alive = nodes.alive[: nodes.size]
    for name, (own, texts) in bits.items():
        refused = own[alive]
        total = int(np.count_nonzero(refused))
        if not total:
            continue
        hits: dict[str, Bits] = {}
        for bit, reason in enumerate(texts):
            # Several bits may have one text; a node counts once for it.
            hit = refused >> np.uint64(bit) & np.uint64(1)
            hits[reason] = hits.get(reason, np.zeros_like(hit)) | hit
        reasons = ((reason, int(hit.sum())) for reason, hit in hits.items())
        counted.append(Refusals(name, total, tuple(item for item in reasons if item[1])))
    return tuple(counted)


def _bits(simulation: Simulation, profile: Profile, pod: Pod) -> Mapping[str, tuple[Bits, list[str]]]:
    """(bits, uint64 [N]; the texts of its bits) of each filter."""
    cycles = simulation.scheduler.cycle
    cycle = cycles.new_cycle(profile, pod, simulation.now)
    try:
        cycles.pre_filter(profile, cycle)
        scores = cycles.scores_for(profile, cycle)
        if scores.status is not None:
            return {}
        found = cycles.filter_bits(profile, cycle, scores)
    except MusterError:
        return {}
    plugins = {plugin.name: plugin for plugin in profile.filter}
    return {
        name: (bits, [reason.text for reason in plugins[name].reasons(cycle)]) for name, bits in found.items()
    }


def load_rung(simulation: Simulation, pods: Sequence[Pod], refusals: Sequence[Refusals]) -> Rung | None:
    """The check of measured load; None if the profile does not look at it."""
    profile = profile_of(simulation, pods)
    if profile is None or LOAD_AWARE_SCHEDULING not in profile.enabled:
        return None
    own = next((item for item in refusals if item.plugin == LOAD_AWARE_SCHEDULING), None)
    nodes = simulation.state.nodes
    total = int(nodes.alive[: nodes.size].sum())
    if own is None:
        return Rung(_LOAD, OK, f"the load of no node is above its threshold ({total} nodes)")
    return Rung(_LOAD, BLOCKED if own.nodes == total else OK, f"{own.text} (of {total} nodes)")


def node_rung(need: int, room: RoomNumbers | None, refusals: Sequence[Refusals], *, known: bool) -> Rung:
    """The check of nodes: how many of the pods fit, and what the filters refuse."""
    if not known:
        return Rung(_NODES, UNKNOWN, "the nodes and the pods on them were not read")
    if room is None:
        return Rung(_NODES, BLOCKED, "there is no node")
    text = f"{min(room.now, need)} of {need} pods fit"
    if not room.open:
        text = f"none of {room.nodes} nodes is open to them"
    elif room.now < need:
        where = f"{room.having} {'node' if room.having == 1 else 'nodes'}"
        free = f"at most {format_resource(room.scarce, room.free)} {room.scarce} is free on {where}"
        text += f": {free}" if room.free else f": no {room.scarce} is free"
    if room.fits > room.now and room.now < need:
        text += f"; {min(room.fits, need)} fit once terminating pods are gone"
    if room.open:
        text += f"; {room.open} of {room.nodes} nodes are open to them"
    told = [item.text for item in refusals if item.plugin != LOAD_AWARE_SCHEDULING]
    if told:
        text += f" ({'; '.join(told)})"
    return Rung(_NODES, BLOCKED if room.now < need else OK, text)
