"""Whether a waiting gang has any chance to start, told without trying it.

In a full cluster each pod that ends makes room for one member of many waiting gangs, and for no gang. An
upper bound of what a gang can get, by quota and by nodes, costs a fraction of an attempt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.gang.capacity import leaving, rooms
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.framework.preemption.demand import Borrowers, of_borrowers, reclaim_demand, reclaimable
from scheduler_core.framework.queueing.widest_victims import may_evict_its_own
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
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
    """Whether neither quota nor nodes can hold the gang now, no evictions can change it, and no nodes can be
    kept for it.

    Only for gangs of equal pods that start together, without a nominated node, and without fair moves; never
    true of any other unit.
    Leaving pods count as gone. Nominations and rules of nodes are left out, as they only take room away.
    """
    if state.ledger.borrowing.fair_moves:
        return False
    gang = state.gangs.gangs.get(unit.key)
    if gang is None or not unit.plugins >= _PLUGINS or not _starts_together(state, gang):
        return False
    need = missing(gang, take_census(state, unit.key))
    if not 1 < need <= len(unit.pods) or len(list(unit.distinct())) != 1:
        return False
    if any(state.nominations.get(uid) is not None for uid in unit.pods):
        # An attempt also releases nodes that are of no use to it any more.
        return False
    pod = max(unit.pods.values(), key=lambda pod: pod.priority)
    quota, charge = state.ledger.quota_of(pod.namespace), least(need, [charged(pod.requests)])
    if quota is None:
        if (state.table.levels.lowest < pod.priority).any():
            return False
    elif not reclaims_in_vain(state, pod, need):
        return False
    if admit_charge(state.ledger, pod.namespace, charge, after_leaving=True) is not None:
        return True
    return not _may_keep_nodes(state, unit) and not _fit(state, pod, need, leaving(state))


def reclaims_in_vain(state: ClusterState, pod: Pod, need: int) -> bool:
    """Whether no eviction by preemption or reclaim lets `need` equal pods start together that lack room now.

    `pod` is the one of highest priority. Members may reclaim although all of them together may not. But those
    beyond the min of their quota evict nothing, and the others no more than they lack, up to one pod or gang.
    Where none of these is larger than a member, either no node or no quota has room for another member once
    a member has taken what it lacks.
    """
    ledger, quota = state.ledger, state.ledger.quota_of(pod.namespace)
    charge = least(need, [charged(pod.requests)])
    if quota is None or may_evict_its_own(state, pod) or may_reclaim(ledger, quota, charge):
        return False
    if ledger.borrowing.fair_moves or ledger.tree or state.nodes.flavors:
        # These decide more than is looked at below.
        return False
    if not may_reclaim(ledger, quota, charged(pod.requests)):
        return True
    blocks = _blocks(state, pod, quota)
    if blocks is None:
        return False
    if not blocks.any():
        return True
    reclaiming = _within_min(state, pod, quota)
    if reclaiming > 1 and admit_charge(ledger, pod.namespace, charge) is not None:
        # What the first ones take for the quota may open nodes for others.
        return False
    # Besides the blocks, each member that reclaims makes room for itself.
    return not _fit(state, pod, need - reclaiming, leaving(state) | blocks)


def _may_keep_nodes(state: ClusterState, unit: QueuedUnit) -> bool:
    """Whether nodes might be kept for the gang after an attempt: none are, and the time has come for it."""
    return not state.gangs.kept_nodes.kept and unit.due == math.inf


def _starts_together(state: ClusterState, gang: Gang) -> bool:
    special = gang.ref.native or gang.problem or gang.group is not None or is_constrained(gang)
    return not special and gang.key not in state.topology.runs


def _blocks(state: ClusterState, pod: Pod, quota: ElasticQuota) -> Marks | None:
    """bool [rows]: pods larger than a member, and pods of gangs, that a member within its min could evict.

    None if that is not known.
    """
    demand = reclaim_demand(state, pod, quota, charged(pod.requests))
    if demand is None or demand.borrowers is None or demand.borrowers.excess is not None:
        return None
    table, size = state.table, state.table.size
    candidates = reclaimable(state, pod) & of_borrowers(table, demand.borrowers)
    vector = state.vector(pod)
    asked = np.flatnonzero(vector)
    larger: NDArray[np.bool_] = table.requests[asked][:, :size] > vector[asked][:, None]  # [k, rows]
    found = np.logical_or.reduce(larger, axis=0, dtype=np.bool_)
    for rows in _gangs_of(state, demand.borrowers):
        found[rows] = True
    found[~candidates] = False
    return found


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
