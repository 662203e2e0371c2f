"""Decides what happens to a running group that lost members, where its constraints leave no room for others.

A missing member is replaced where the constraints of the group hold beside the members that run. If there is
no such place, the group waits; with the lifecycle policy `restart` it is restarted as a whole instead, but
only if it could then start. Quota that lacks for the missing members would lack after a restart, too. The
decision is kept for conditions and for `controllers.gang_lifecycle`.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler_core.arrays.types import Bool
from scheduler_core.engine.gang.capacity import beyond_quota, in_use, leaving
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.outcome import MustWait, Outcome, Prepares, Starts
from scheduler_core.model.groups.gang import Gang
from scheduler_core.quota.ledger import shift
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.gangs import Census
from scheduler_core.state.gangs.held_quota import held_against
from scheduler_core.state.topology import GroupRun, Repair, RepairReason

# Whether the missing members fit once the pods that leave are gone, and whether the whole group would start
# without its own members: rows of the pod table that are gone, bool [rows].
Fits = Callable[[Bool], bool]


def is_damaged(gang: Gang, run: GroupRun, census: Census, need: int) -> bool:
    """Whether a running group lacks members that it had; a minimum that was raised later is no damage."""
    had = len(run.starters)
    return need > 0 and census.running > 0 and census.allocated > 0 and (not had or had >= gang.min_members)


def decide_repair(
    state: ClusterState,
    gang: Gang,
    run: GroupRun,
    need: int,
    outcome: Outcome,
    where: str,
    short: str,
    fits_beside: Fits,
    fits_anew: Fits,
) -> None:
    """Keep the decision about a damaged group after an attempt with this outcome.

    `where` is its domain, `short` what it lacks of its quota, if anything.
    """
    if isinstance(outcome, Starts):
        text = f"{len(outcome.reserved)} of the missing members were replaced in {where}"
        _keep(state, gang, run, Repair(RepairReason.REPLACED, text))
        return
    lacks = _missing(need)
    coming = isinstance(outcome, Prepares) or (
        isinstance(outcome, MustWait) and outcome.preemption is not None
    )
    if short and not coming:
        _keep(state, gang, run, Repair(RepairReason.LACKS_QUOTA, f"{lacks}; {short}"))
        return
    gone = leaving(state)
    if coming or fits_beside(gone):
        text = f"{lacks}; room in {where} is coming free"
        _keep(state, gang, run, Repair(RepairReason.WAITS, text))
        return
    lacks = f"{lacks}, and {where} has no room"
    if not gang.restarts:
        text = f"{lacks}; the members that run stay, as the lifecycle policy is not restart"
        _keep(state, gang, run, Repair(RepairReason.WAITS, text))
        return
    uids = frozenset(uid for uid in state.gangs.members(gang.key) if uid in state.placed)
    gone[[state.placed[uid].row for uid in uids]] = True
    if fits_anew(gone):
        text = f"{lacks}, but elsewhere there is room for all of it"
        _keep(state, gang, run, Repair(RepairReason.RESTARTED, text, uids))
    else:
        text = f"{lacks}; a restart would not help, as there is no room for all of it elsewhere"
        _keep(state, gang, run, Repair(RepairReason.WAITS, text))


def lacking_quota(state: ClusterState, members: Members, need: int) -> str:
    """The text why `need` of the members exceed their quota once the pods that leave are gone; else empty."""
    pod = members[0][1]
    used, total = in_use(state, pod.namespace, leaving(state))
    shift(used, held_against(state, pod).amounts)
    return beyond_quota(state, members, need, used, total)


def _missing(need: int) -> str:
    return "1 member is missing" if need == 1 else f"{need} members are missing"


def _keep(state: ClusterState, gang: Gang, run: GroupRun, repair: Repair) -> None:
    if run.repair != repair:
        run.repair = repair
        state.gangs.mark(gang.ref)
