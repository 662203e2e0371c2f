"""Pods that the min of their quota covers, and which of them a pod of the same quota must spare.

The min of a quota belongs to its most important pods: from the highest priority down, then from the earliest
start, each pod is covered if the min has room for it beside the covered ones before it. A pod that would not
be covered itself evicts no covered pod. Otherwise it would turn what its quota is guaranteed into a loan,
another quota would reclaim that, the evicted pod would claim its min elsewhere, and so on without end
(docs/quota.md#preemption).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.model.names import GUARANTEED_RESOURCES
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.policy import reclaimable_from, relevant
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.placed.pods import PodTable


def covered(requests: Int64, room: Int64) -> Bool:
    """bool [M]: pods for which there is room beside those before them for which there is.

    `requests` int64 [K, M], most important first; `room` int64 [K].
    """
    found: Bool = np.ones(requests.shape[1], dtype=np.bool_)
    while True:
        rows = np.flatnonzero(found)
        own = requests[:, rows]
        # Pods that bypassed the filters may ask for any amount: floats do not wrap around.
        beyond = (np.cumsum(own, axis=1, dtype=np.float64) > room[:, None]) & (own > 0)
        late = beyond.any(axis=0)
        if not late.any():
            return found
        first = int(late.argmax())
        # Whoever comes later and asks for as much finds no room either.
        short = beyond[:, first]
        found[rows[first:][(own[short, first:] >= own[short, first, None]).any(axis=0)]] = False


def spared(
    state: ClusterState,
    quota: ElasticQuota,
    priority: int,
    asked: ResourceList,
    beside: ResourceList,
    gone: Sequence[int] = (),
) -> Bool:
    """bool [rows]: covered pods of a quota, if a pod of this priority would not be covered itself.

    `asked` is what would be charged, `beside` what nominated pods with precedence will use; the pods in the
    rows `gone` take none of its room. Where there is no other quota nobody reclaims, and no pod is spared.
    """
    table = state.table
    found: Bool = np.zeros(table.size, dtype=np.bool_)
    if not _has_others(state, quota):
        return found
    table.cover(len(state.index))
    rows = _by_importance(table, quota.namespace)
    before = (table.priority[rows] >= priority) & ~np.isin(rows, gone)
    for names in _guarantees(state, quota):
        requests, room = _requests(state, quota, rows, names)
        ahead = requests[:, before]
        left = dict(zip(names, (room - ahead[:, covered(ahead, room)].sum(axis=1)).tolist(), strict=True))
        if any(asked.get(name, 0) > max(0, left[name] - beside.get(name, 0)) for name in names):
            found[rows[covered(requests, room)]] = True
    return found


def spares_covered(
    state: ClusterState, pods: Iterable[Pod], asked: ResourceList, victims: Iterable[Pod]
) -> bool:
    """Whether pods that start together, and are charged `asked` in all, evict no pod of their quota that
    they must spare.
    """
    least = min(pods, key=lambda pod: pod.priority)
    quota = state.ledger.quota_of(least.namespace)
    own = [state.placed[pod.uid].row for pod in victims if pod.namespace == least.namespace]
    if quota is None or not own:
        return True
    return not spared(state, quota, least.priority, asked, {}, own)[own].any()


def _has_others(state: ClusterState, quota: ElasticQuota) -> bool:
    return any(other.namespace != quota.namespace for other in state.ledger.quotas())


def _guarantees(state: ClusterState, quota: ElasticQuota) -> Iterator[list[str]]:
    """The resources of each way to reclaim: all that the quota limits, and those that it guarantees."""
    yield list(relevant(state.ledger, quota))
    if state.ledger.aggregate == GUARANTEED_RESOURCES:
        yield list(reclaimable_from(state.ledger, quota, borrows=True))


def _by_importance(table: PodTable, namespace: str) -> Int64:
    """int64 [M]: the rows of a namespace's pods that do not leave, most important first."""
    size = table.size
    own = table.alive[:size] & ~table.leaving[:size]
    rows = np.flatnonzero(own & (table.namespace[:size] == table.namespaces.find(namespace)))
    return rows[np.lexsort([rows, table.start[rows], -table.priority[rows]])]


def _requests(
    state: ClusterState, quota: ElasticQuota, rows: Int64, names: Sequence[str]
) -> tuple[Int64, Int64]:
    """(int64 [K, M], int64 [K]): what pods request of K resources, and the min of these."""
    requests: Int64 = np.zeros((len(names), len(rows)), dtype=np.int64)
    for number, name in enumerate(names):
        row = state.index.row(name)
        if row is not None:
            requests[number] = state.table.requests[row, rows]
    return requests, np.array([quota.min.get(name, 0) for name in names], dtype=np.int64)
