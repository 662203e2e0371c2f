"""Who might be evicted for a pod at most, by the widest reading of the rules: what hints ask.

A hint may accept an event that does not help; it may not leave out one that does. So who is guaranteed, and
who may be spared, is not looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.hints import Beneath
from scheduler_core.model.pod import NEVER, Pod
from scheduler_core.quota.policy import within_min
from scheduler_core.state.cluster import ClusterState

Bool = NDArray[np.bool_]


def is_within_min(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod under a quota would stay within its min, so that it may take back from others."""
    quota = state.ledger.quota_of(pod.namespace)
    return quota is not None and within_min(state.ledger, quota, pod.requests)


def may_evict_its_own(state: ClusterState, pod: Pod) -> bool:
    """Whether less important pods of the pod's own namespace hold nodes."""
    if pod.preemption_policy == NEVER:
        return False
    return state.table.levels.lowest_of(state.table.namespaces.find(pod.namespace)) < pod.priority


def nobody_may_go(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod under a quota can have no victim, and nobody is on the way out whom it could wait for."""
    if is_within_min(state, pod) or may_evict_its_own(state, pod):
        return False
    table = state.table
    return not np.count_nonzero(table.going[: table.size] & table.alive[: table.size])


def freed_by_victims(state: ClusterState, pod: Pod, slot: int) -> Int64:
    """int64 [R]: what the pods of a node hold that might go for a pod."""
    table, rows = state.table, _pods_on(state, slot)
    table.cover(len(state.index))
    victims = table.going[rows]
    if pod.preemption_policy != NEVER:
        victims = victims | _may_go_for(state, pod, rows)
    held: Int64 = table.requests[:, rows[victims]].sum(axis=1)
    return held


def beneath(state: ClusterState, slot: int, above: int, everybody: bool) -> Beneath | None:
    """What a node's pods hold, the least important ones first.

    None if none of them leaves, and none is less important than `above` where not `everybody` may go.
    """
    table, rows = state.table, _pods_on(state, slot)
    going = table.going[rows]
    if not going.any() and (not len(rows) or not (everybody or table.priority[rows[0]] < above)):
        return None
    table.cover(len(state.index))
    held: Int64 = np.zeros((len(table.requests), len(rows) + 1), dtype=np.int64)  # [R, K + 1]
    np.cumsum(table.requests[:, rows], axis=1, out=held[:, 1:])
    leaving: Int64 = table.requests[:, rows[going]].sum(axis=1)
    return Beneath(table.priority[rows], held, leaving)


def _may_go_for(state: ClusterState, pod: Pod, rows: NDArray[np.intp]) -> Bool:
    """bool [K]: of some rows of the pod table, whose pods might go for a pod that evicts."""
    table, quota_of = state.table, state.ledger.quota_of
    names = [table.namespaces.values[number] for number in table.namespace[rows].tolist()]
    lower = table.priority[rows] < pod.priority
    own: Bool = np.array([name == pod.namespace for name in names], dtype=np.bool_)
    free: Bool = np.array([quota_of(name) is None for name in names], dtype=np.bool_)
    if quota_of(pod.namespace) is None:
        return lower
    if is_within_min(state, pod):
        return lower | ~own
    return lower & (own | free)


def _pods_on(state: ClusterState, slot: int) -> NDArray[np.intp]:
    """int [K]: rows of the pod table, lowest priority first."""
    placed = state.placed
    rows: NDArray[np.intp] = np.array([placed[uid].row for uid in state.nodes.pods[slot]], dtype=np.intp)
    return rows[np.argsort(state.table.priority[rows], kind="stable")]
