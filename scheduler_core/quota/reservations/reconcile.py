"""Reconciles a reservation ledger with the pods and PodGroups that exist.

Admission comes before storage, so every entry begins unconfirmed: the request may fail later, or the review
may have been forged. `unconfirmed_entries` names the entries for which no object was seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, Key, ReservationLedger
from scheduler_core.quota.ledger import shift
from scheduler_core.quota.reservations.limits import enterable


def reconcile(
    ledger: ReservationLedger,
    pods: Mapping[str, PodUse],
    groups: Mapping[str, PodGroup],
    *,
    gone: Collection[str] = (),
    overdue: Collection[str] = (),
    idle: Collection[str] = (),
    complete: bool = False,
) -> ReservationLedger:
    """The ledger in line with the pods and groups that exist: settled, released and repaired. Idempotent.

    `pods` and `groups` are by uid. Charges of visible pods are struck out, those of `gone` pods and of
    `overdue` ones (in the ledger for the whole time-out and still not there) dropped; so are holds of groups
    that do not exist. A hold ends when enough members succeeded and none is left, or when it is `idle` (see
    `idle_groups`) for the whole time-out. With `complete` the groups are all that the server has, read just
    now: holds that are missing are made again, as far as there is room for them.
    """
    live = _live(ledger, pods)
    holds = []
    for hold in ledger.holds:
        group = groups.get(hold.uid)
        if hold.uid in gone or (group is None and hold.uid in overdue):
            continue
        if group is not None:
            known = hold_of(group)
            hold = msgspec.structs.replace(known, done=hold.done, spent=hold.spent, ended=hold.ended)
        hold = hold if hold.ended else _without_spent(hold, pods)
        if not live.get(hold.group) and (len(hold.done) >= hold.min_members or hold.uid in idle):
            hold = msgspec.structs.replace(hold, ended=True, done=(), spent={})
        holds.append(hold)
    settled = [pods[charge.uid] for charge in ledger.charges if is_visible(charge, pods)]
    if complete:
        held = {hold.uid for hold in holds}
        missing = [g for g in groups.values() if g.total and not g.succeeded and g.uid not in held]
        if missing:
            # The charges may be lost as well, so readers of this ledger must know all pods that exist now.
            settled = list(pods.values())
        rest = msgspec.structs.replace(ledger, holds=tuple(holds))
        holds += [_without_spent(hold, pods) for hold in enterable(rest, map(hold_of, missing))]
    kept = tuple(
        charge
        for charge in ledger.charges
        if charge.uid not in gone and charge.uid not in overdue and not is_visible(charge, pods)
    )
    return msgspec.structs.replace(
        ledger,
        holds=tuple(holds),
        charges=kept,
        pods_version=max((ledger.pods_version, *(pod.resource_version for pod in settled)), key=_version),
    )


def hold_of(group: PodGroup) -> Hold:
    """The hold of a new group."""
    return Hold(group.name, group.uid, group.min_members, group.total, max(0.0, group.created))


def idle_groups(ledger: ReservationLedger, pods: Mapping[str, PodUse]) -> set[str]:
    """uids of the holds whose groups had minMembers; no member is left, and not all succeeded."""
    live = _live(ledger, pods)
    found = set()
    for hold in ledger.holds:
        if not hold.ended and not live.get(hold.group):
            finished = {pod.uid for pod in pods.values() if pod.finished and _is_member(pod, hold)}
            if len(finished.union(hold.done)) >= hold.min_members:
                found.add(hold.uid)
    return found


def _is_member(pod: PodUse, hold: Hold) -> bool:
    """Whether a finished pod is a member. One that started earlier was in an older group of that name."""
    return pod.group == hold.group and pod.started >= hold.since


def _without_spent(hold: Hold, pods: Mapping[str, PodUse]) -> Hold:
    """The hold with the use of succeeded members noted as spent; each counts once, by its uid."""
    known = set(hold.done)
    new = [p for p in pods.values() if p.succeeded and _is_member(p, hold) and p.uid not in known]
    if not new:
        return hold
    spent = dict(hold.spent)
    for pod in new:
        shift(spent, pod.usage)
    done = (*hold.done, *sorted(pod.uid for pod in new))
    return msgspec.structs.replace(hold, spent=spent, done=done)


def _live(ledger: ReservationLedger, pods: Mapping[str, PodUse]) -> dict[str, int]:
    """The number of live and admitted members per group."""
    live: dict[str, int] = {}
    for pod in pods.values():
        if not pod.finished:
            live[pod.group] = live.get(pod.group, 0) + 1
    for charge in ledger.charges:
        if charge.uid not in pods:
            live[charge.group] = live.get(charge.group, 0) + 1
    return live


def _version(text: str) -> tuple[int, str]:
    """Sort key of resourceVersions: decimal numbers of any length."""
    return (len(text), text)


def is_visible(charge: Charge, pods: Mapping[str, PodUse]) -> bool:
    """Whether the pod is visible with at least the use in the charge."""
    pod = pods.get(charge.uid)
    if pod is None:
        return False
    return pod.finished or all(pod.usage.get(name, 0) >= value for name, value in charge.usage.items())


def unconfirmed_entries(
    ledger: ReservationLedger, pods: Mapping[str, PodUse], groups: Mapping[str, PodGroup]
) -> list[Key]:
    """The entries for which no object is there, in the ledger's order; `pods` and `groups` are by uid."""
    holds = [(True, hold.uid) for hold in ledger.holds if not hold.ended and hold.uid not in groups]
    return holds + [(False, charge.uid) for charge in ledger.charges if not is_visible(charge, pods)]
