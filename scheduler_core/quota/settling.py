"""What becomes of a reservation ledger as pods and PodGroups come and go: settled, released, repaired."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from scheduler_core.model.pod_group import PodGroup
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.quota.holds import beginnings


def settle(
    ledger: ReservationLedger,
    pods: Mapping[str, PodUse],
    groups: Mapping[str, PodGroup],
    *,
    gone: Collection[str] = (),
    overdue: Collection[str] = (),
    idle: Collection[str] = (),
    complete: bool = False,
) -> ReservationLedger:
    """The ledger as it should be by what can be seen: repaired, settled and released. Idempotent.

    `pods` and `groups` are by uid. Charges of visible pods are struck out, those of `gone` pods and of
    `overdue` ones (in the ledger for the whole time-out and still not there) dropped; so are holds of groups
    that do not exist. A hold ends when enough members succeeded and none is left, or when it is `idle` (see
    `idle_groups`) for the whole time-out. With `complete` the groups are all that the server has, read just
    now: holds that are missing are made again.
    """
    live, succeeded, _ = _census(ledger, pods)
    holds = []
    for hold in ledger.holds:
        group = groups.get(hold.uid)
        if hold.uid in gone or (group is None and hold.uid in overdue):
            continue
        if group is not None:
            hold = _hold_of(group, ended=hold.ended)
        enough = succeeded.get(hold.group, 0) >= hold.min_members
        if not live.get(hold.group) and (enough or hold.uid in idle):
            hold = msgspec.structs.replace(hold, ended=True)
        holds.append(hold)
    settled = [pods[charge.uid] for charge in ledger.charges if _visible(charge, pods)]
    if complete:
        known = {hold.uid for hold in holds}
        missing = [g for g in groups.values() if g.total and not g.succeeded and g.uid not in known]
        if missing:
            # The charges may be lost as well: whoever reads this must know all pods that exist now.
            settled = list(pods.values())
        holds += [_hold_of(group) for group in missing]
    kept = tuple(
        charge
        for charge in ledger.charges
        if charge.uid not in gone and charge.uid not in overdue and not _visible(charge, pods)
    )
    return msgspec.structs.replace(
        ledger,
        holds=tuple(holds),
        charges=kept,
        pods_version=max((ledger.pods_version, *(pod.resource_version for pod in settled)), key=_version),
    )


def idle_groups(ledger: ReservationLedger, pods: Mapping[str, PodUse]) -> set[str]:
    """uids of the holds whose groups had minMembers and of whom none is left; not all of them ended well."""
    live, _, finished = _census(ledger, pods)
    return {
        hold.uid
        for hold in ledger.holds
        if not hold.ended and not live.get(hold.group) and finished.get(hold.group, 0) >= hold.min_members
    }


def _hold_of(group: PodGroup, ended: bool = False) -> Hold:
    return Hold(group.name, group.uid, group.min_members, group.total, group.created, ended)


def _census(
    ledger: ReservationLedger, pods: Mapping[str, PodUse]
) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Per group the members that live or are on their way, that ended well, and that ended."""
    since = beginnings(ledger)
    live: dict[str, int] = {}
    succeeded: dict[str, int] = {}
    finished: dict[str, int] = {}
    for pod in pods.values():
        if not pod.finished:
            live[pod.group] = live.get(pod.group, 0) + 1
        elif pod.started >= since.get(pod.group, 0.0):
            finished[pod.group] = finished.get(pod.group, 0) + 1
            succeeded[pod.group] = succeeded.get(pod.group, 0) + pod.succeeded
    for charge in ledger.charges:
        if charge.uid not in pods:
            live[charge.group] = live.get(charge.group, 0) + 1
    return live, succeeded, finished


def _visible(charge: Charge, pods: Mapping[str, PodUse]) -> bool:
    """Whether the pod itself says all that the charge says."""
    pod = pods.get(charge.uid)
    if pod is None:
        return False
    return pod.finished or all(pod.usage.get(name, 0) >= value for name, value in charge.usage.items())


def _version(text: str) -> tuple[int, str]:
    """Sort key of resourceVersions: decimal numbers of any length."""
    return (len(text), text)
