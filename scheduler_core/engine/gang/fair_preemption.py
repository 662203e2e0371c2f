"""Fair moves for a gang: one piece of work, which takes from quotas that borrow more, or takes nothing.

The members that must start together count as a whole in the share of their quota
(docs/fair-sharing.md#fair-moves). Victims are whole gangs and single pods, as for a native group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import msgspec

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.gang.capacity import CAPACITY, charges_of, evicts_nobody
from scheduler_core.engine.gang.group_preemption import (
    Place,
    Turn,
    able,
    preempt_in_turn,
    where_it_helps,
)
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preemption.demand import reclaim_demand
from scheduler_core.framework.preemption.eligibility import gang_waits
from scheduler_core.framework.preemption.fair_demand import (
    FairDemand,
    comes_of_age,
    fair_demand,
    why_no_fair_move,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.state.cluster import ClusterState


class FairAttempt(msgspec.Struct, frozen=True):
    """The fair move of a gang; without one the reason in words (empty if none was needed), and when time
    alone may bring victims.
    """

    preemption: GangPreemption | None = None
    reason: str = ""
    due: float = math.inf


def move_fairly(
    cycle: PodCycle, members: Members, need: int, now: float, place: Place | None = None
) -> FairAttempt:
    """The fair move that lets `need` of the members start; the state is unchanged. Raises PluginError.

    For members that may preempt. `place` as in `group_preemption.preempt_for_members`.
    """
    state = cycle.state
    pods = [pod for _, pod in members]
    quota = state.ledger.quota_of(pods[0].namespace)
    if quota is None or any(CAPACITY not in of.enabled for of, _ in members):
        return FairAttempt()
    if gang_waits(state, pods) or evicts_nobody(state, pods, need, now):
        return FairAttempt()
    starting = able(cycle, members, now)[:need]
    if len(starting) < need:
        return FairAttempt()
    top = max((pod for _, pod in starting), key=lambda pod: pod.priority)
    asked = charges_of(state, (pod for _, pod in starting))
    found = fair_demand(state, top, quota, asked, now)
    if found is None:
        return _reclaims_later(state, top, quota, asked, now)
    made = _victims(cycle, found, starting, now, place)
    if made is not None:
        return FairAttempt(msgspec.structs.replace(made, fair=bool(made.victims)))
    return FairAttempt(None, why_no_fair_move(state, found), found.demand.until)


def _reclaims_later(
    state: ClusterState, top: Pod, quota: ElasticQuota, asked: ResourceList, now: float
) -> FairAttempt:
    """When a gang that may reclaim is tried again, because pods of others have not run for long enough."""
    if not any(other.sharing.reclaim_min_runtime for other in state.ledger.quotas()):
        return FairAttempt()
    demand = reclaim_demand(state, top, quota, asked, now)
    return FairAttempt(None, comes_of_age(demand), demand.until) if demand is not None else FairAttempt()


def _all_of(need: Int64, pods: Sequence[Pod]) -> Int64:
    """What victims must free, int64 [R]: the gang is one piece of work."""
    return need


def _victims(
    cycle: PodCycle, found: FairDemand, members: Members, now: float, place: Place | None
) -> GangPreemption | None:
    for demand in found.turns(cycle.state.table):
        turn = Turn(members, demand, partial(_all_of, demand.need))
        for part in (where_it_helps(cycle, turn, now), turn):
            made = None
            if part is not None and part.demand.eligible.any():
                made = preempt_in_turn(cycle, part, len(members), now, place)
            if made is not None:
                return made
    return None
