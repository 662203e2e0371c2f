"""Upper bound of the pods that might be evicted for a pod, for queueing hints.

A hint may accept an event that does not help, but must not drop one that does. Guarantees and reprieve are
therefore not considered.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.nominations.nominated_sums import nominated_of_quotas, own_nominated
from scheduler_core.framework.preemption.covered import spared
from scheduler_core.framework.preemption.fair_demand import fair_move_of
from scheduler_core.framework.queueing.hints import EvictableRequests
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.quota import policy
from scheduler_core.quota.fair_moves import gives_any
from scheduler_core.quota.ledger import charged
from scheduler_core.state.cluster import ClusterState


def may_reclaim(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod under a quota may evict pods of other quotas, as it would stay within its min."""
    quota = state.ledger.quota_of(pod.namespace)
    return quota is not None and policy.may_reclaim(state.ledger, quota, charged(pod.requests))


def may_move_fairly(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod under a quota may take from quotas that borrow more, if these had pods that suffice.

    Of a pod of a group the share of the whole group counts, which is not known here: then it is enough that
    the sum of min is too small for as many such pods as the group needs, and that another quota borrows.
    """
    ledger = state.ledger
    if not ledger.borrowing.fair_moves or pod.preemption_policy == NEVER:
        return False
    quota = ledger.quota_of(pod.namespace)
    if quota is None or not quota.sharing.weight:
        return False
    if group_of(pod) is None:
        move = fair_move_of(state, pod, quota, charged(pod.requests))
        return move is not None and gives_any(ledger, move)
    gang = state.gangs.of(pod)
    number = gang.min_members if gang is not None else 1
    in_use = ledger.in_use(after_leaving=True)
    nominated, _ = nominated_of_quotas(state, without_kept=False)
    # In a tree, the max of a group may be too small instead.
    return (
        bool(ledger.groups_above(quota.namespace))
        or any(
            in_use.get(name, 0) + nominated.get(name, 0) + number * asked
            > ledger.total_min.get(name, math.inf)
            for name, asked in charged(pod.requests).items()
        )
    ) and any(
        policy.borrowed(ledger, other) for other in ledger.quotas() if other.namespace != quota.namespace
    )


def may_evict_its_own(state: ClusterState, pod: Pod) -> bool:
    """Whether less important pods of the pod's own namespace hold nodes."""
    if pod.preemption_policy == NEVER:
        return False
    return state.table.levels.lowest_of(state.table.namespaces.find(pod.namespace)) < pod.priority


def spares_some(state: ClusterState, pod: Pod) -> bool:
    """Whether less important pods of the pod's own quota stay because the min covers them, but not the pod.

    Of a pod of a group the charge of the whole group counts, which is not known here: then any may stay.
    """
    quota = state.ledger.quota_of(pod.namespace)
    if quota is None or not may_evict_its_own(state, pod):
        return False
    if group_of(pod) is not None:
        return True
    table, beside = state.table, own_nominated(state, pod)
    lower = table.priority[: table.size] < pod.priority
    return any(
        bool((spared(state, quota, pod.priority, charged(asked), beside) & lower).any())
        for asked in state.nodes.flavors.charges(pod)
    )


def no_possible_victims(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod under a quota can have no victims, and there are no leaving pods to wait for."""
    if may_reclaim(state, pod) or may_evict_its_own(state, pod):
        return False
    table = state.table
    return not np.count_nonzero(table.leaving[: table.size] & table.alive[: table.size])


def freed_by_victims(state: ClusterState, pod: Pod, slot: int) -> Int64:
    """int64 [R]: requests of the pods of a node that might be evicted for a pod."""
    table, rows = state.table, _pods_on(state, slot)
    table.cover(len(state.index))
    victims = table.leaving[rows]
    if pod.preemption_policy != NEVER:
        victims = victims | _may_go_for(state, pod, rows)
    held: Int64 = table.requests[:, rows[victims]].sum(axis=1)
    return held


def evictable_requests(
    state: ClusterState, slot: int, above: int, everybody: bool
) -> EvictableRequests | None:
    """Requests of a node's pods, the least important first.

    None if no pod is leaving and no pod can be evicted: all can with `everybody`, else those below `above`.
    """
    table, rows = state.table, _pods_on(state, slot)
    marked = table.leaving[rows]
    if not marked.any() and (not len(rows) or not (everybody or table.priority[rows[0]] < above)):
        return None
    table.cover(len(state.index))
    held: Int64 = np.zeros((len(table.requests), len(rows) + 1), dtype=np.int64)  # [R, K + 1]
    np.cumsum(table.requests[:, rows], axis=1, out=held[:, 1:])
    leaving: Int64 = table.requests[:, rows[marked]].sum(axis=1)
    return EvictableRequests(table.priority[rows], held, leaving, table.namespace[rows].astype(np.int64))


def _may_go_for(state: ClusterState, pod: Pod, rows: NDArray[np.intp]) -> Bool:
    """bool [K]: the rows of the pod table whose pods might be evicted for a pod."""
    table, quota_of = state.table, state.ledger.quota_of
    names = [table.namespaces.values[number] for number in table.namespace[rows].tolist()]
    lower = table.priority[rows] < pod.priority
    own: Bool = np.array([name == pod.namespace for name in names], dtype=np.bool_)
    free: Bool = np.array([quota_of(name) is None for name in names], dtype=np.bool_)
    if quota_of(pod.namespace) is None:
        return lower
    if may_reclaim(state, pod) or may_move_fairly(state, pod):
        return lower | ~own
    return lower & (own | free)


def _pods_on(state: ClusterState, slot: int) -> NDArray[np.intp]:
    """int [K]: rows of the pod table, lowest priority first."""
    placed = state.placed
    rows: NDArray[np.intp] = np.array([placed[uid].row for uid in state.nodes.pods[slot]], dtype=np.intp)
    return rows[np.argsort(state.table.priority[rows], kind="stable")]
