"""Whether a waiting gang has any chance to start, told without trying it.

In a full cluster each pod that ends makes room for one member of many waiting gangs, and for no gang. An
upper bound of what a gang can get, by quota and by nodes, costs a fraction of an attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.gang.capacity import leaving, rooms
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.framework.preemption.demand import Borrowers, available, of_borrowers, reclaim_demand
from scheduler_core.framework.preemption.fair_demand import fair_move_of
from scheduler_core.framework.queueing.widest_victims import may_evict_its_own
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.fair_moves import gives_any
from scheduler_core.quota.group_need import least
from scheduler_core.quota.ledger import charged
from scheduler_core.quota.policy import admit_charge, may_reclaim
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.gangs import missing, take_census
from scheduler_core.state.topology import is_constrained

# The bounds below hold where these plugins refuse.
_PLUGINS: Final = frozenset({names.CAPACITY_SCHEDULING, names.COSCHEDULING, names.NODE_RESOURCES_FIT})

Marks = NDArray[np.bool_]


def has_no_chance(state: ClusterState, unit: QueuedUnit) -> bool:
    """Whether neither quota nor nodes can hold the gang now, and no evictions can change it.

    Only for gangs of equal pods that start together; never true of any other unit. Leaving pods count as
    gone. Nominations and rules of nodes are left out, as they only take room away.
    """
    gang = state.gangs.gangs.get(unit.key)
    if gang is None or not unit.plugins >= _PLUGINS or not _starts_together(state, gang):
        return False
    kinds = list(unit.distinct())
    need = missing(gang, take_census(state, unit.key))
    if len(kinds) != 1 or not 1 < need <= len(unit.pods):
        return False
    (pod,) = kinds
    charge = least(need, [charged(pod.requests)])
    quota = state.ledger.quota_of(pod.namespace)
    more = 0
    gone = leaving(state)
    if quota is None:
        if state.table.levels.lowest < pod.priority:
            return False
    elif _takes_as_a_whole(state, pod, quota, charge):
        return False
    elif may_reclaim(state.ledger, quota, charged(pod.requests)):
        blocks = _blocks(state, pod, quota)
        if blocks is None:
            return False
        if blocks.any():
            gone, more = gone | blocks, _within_min(state, pod, quota)
            return admit_charge(state.ledger, pod.namespace, charge) is None and not _fit(
                state, pod, need - more, gone
            )
    if admit_charge(state.ledger, pod.namespace, charge, after_leaving=True) is not None:
        return True
    return not _fit(state, pod, need, gone)


def _starts_together(state: ClusterState, gang: Gang) -> bool:
    special = gang.ref.native or gang.problem or gang.group is not None or is_constrained(gang)
    return not special and gang.key not in state.topology.runs


def _takes_as_a_whole(state: ClusterState, pod: Pod, quota: ElasticQuota, charge: ResourceList) -> bool:
    """Whether pods could be evicted for all of the gang: of its own quota, in a reclaim or in a fair move."""
    ledger = state.ledger
    if may_evict_its_own(state, pod) or may_reclaim(ledger, quota, charge):
        return True
    move = fair_move_of(state, pod, quota, charge) if ledger.borrowing.fair_moves else None
    return move is not None and gives_any(ledger, move)


def _blocks(state: ClusterState, pod: Pod, quota: ElasticQuota) -> Marks | None:
    """bool [rows]: what a member within the min of its quota could evict that makes room for others as well.

    None if that is not known. Members that are beyond the min evict nothing. A member evicts no more than it
    lacks, up to one pod or gang. If none of these is larger than the member, then afterwards either no node
    has room for another member, or no quota; so it does not help the gang that some of its members reclaim.
    """
    demand = reclaim_demand(state, pod, quota, charged(pod.requests))
    if demand is None or demand.borrowers is None or demand.borrowers.excess is not None:
        return None
    table, size = state.table, state.table.size
    candidates = available(state, pod) & of_borrowers(table, demand.borrowers)
    vector = state.vector(pod)
    asked = np.flatnonzero(vector)
    found: Marks = np.asarray((table.requests[asked][:, :size] > vector[asked][:, None]).any(axis=0))
    for rows in _gangs_of(state, demand.borrowers):
        found[rows] = True
    marked: Marks = found & candidates
    return marked


def _gangs_of(state: ClusterState, borrowers: Borrowers) -> Iterator[list[int]]:
    """The rows of the placed pods of each gang with several, of quotas that borrow."""
    spaces = {quota.namespace for quota in borrowers.quotas}
    for key, gang in state.gangs.gangs.items():
        if gang.ref.namespace not in spaces:
            continue
        rows = [state.placed[uid].row for uid in state.gangs.members(key) if uid in state.placed]
        if len(rows) > 1:
            yield rows


def _within_min(state: ClusterState, pod: Pod, quota: ElasticQuota) -> int:
    """How many such pods, at most, the quota can hold within its min."""
    used = state.ledger.used(pod.namespace)
    gone = state.ledger.leaving(pod.namespace)
    return min(
        (quota.min.get(name, 0) - used.get(name, 0) + gone.get(name, 0)) // asked
        for name, asked in charged(pod.requests).items()
        if asked > 0 and name in quota.min
    )


def _fit(state: ClusterState, pod: Pod, need: int, gone: Marks) -> bool:
    """Whether the nodes can hold `need` such pods, by their resources, once the `gone` rows have left."""
    vector = state.vector(pod)
    asked = np.flatnonzero(vector)
    if not len(asked):
        return True
    fits = rooms(state, vector, asked, gone).min(axis=0)  # [N]
    return int(fits[state.nodes.alive[: state.nodes.size]].sum()) >= need
