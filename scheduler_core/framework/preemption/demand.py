"""What a preemptor lacks, and whose pods may go for it: the rules of quota and priority as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import borrowed, over_min, relevant, within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nominations import Nomination

Bool = NDArray[np.bool_]
Rows = NDArray[np.int64]

NO_QUOTA: Final = -1


class Lenders(msgspec.Struct, frozen=True):
    """Quotas whose pods may be reclaimed, Q of them: use and min as int64 [Q, R], what counts as bool [Q, R].

    `of` is the quota's number per namespace id of the pod table, int64 [namespaces], NO_QUOTA for others.
    """

    quotas: tuple[ElasticQuota, ...]
    of: Int64
    used: Int64
    min: Int64
    counts: Bool


class Demand(msgspec.Struct, frozen=True):
    """A preemptor's case. `need` int64 [R]: what victims must free for its quota to admit it.

    `eligible` bool [rows] says who of the pod table may be a victim. `lenders` is set where the pod reclaims
    its min from other quotas; the over-min test then holds for every victim.
    """

    pod: Pod
    request: Int64
    need: Int64
    eligible: Bool
    quota: ElasticQuota | None = None
    lenders: Lenders | None = None


def nominated_requests(state: ClusterState, pod: Pod) -> tuple[dict[str, int], dict[str, int]]:
    """(of the pod's own quota, of all quotas): what nominated pods will use (reference, rule 4).

    Of the same quota those with at least the pod's priority; of others the resources in which they are not
    over min: who borrows one thing keeps the right to what it reclaims of another.
    """
    own: dict[str, int] = {}
    total: dict[str, int] = {}
    for (namespace, priority), sums in state.nominations.sums.items():
        quota = state.ledger.quota_of(namespace)
        if quota is None:
            continue
        if namespace == pod.namespace:
            if priority >= pod.priority:
                shift(own, sums)
                shift(total, sums)
            continue
        over = borrowed(state.ledger, quota, after_leaving=True)
        shift(total, {name: value for name, value in sums.items() if name not in over})
    if state.nominations.counts(pod.uid) and state.ledger.quota_of(pod.namespace) is not None:
        # The pod's own nomination is in the sums: its request is what we are asked about.
        for sums in (own, total):
            shift(sums, charged(pod.requests), -1)
    return own, total


def goes_first(state: ClusterState, nominee: Nomination, pod: Pod) -> bool:
    """Whether room that a nominated pod waits for is closed to `pod`.

    Under one quota, or with none, priority decides. A pod of another quota could not have made that room
    itself, whatever its priority; if it took it, the same victims would go again and again (rule 16). Of two
    such pods that wait for one node, the later one was nominated beside the earlier.
    """
    if state.ledger.quota_of(nominee.pod.namespace) is state.ledger.quota_of(pod.namespace):
        return nominee.pod.priority >= pod.priority
    own = state.nominations.get(pod.uid)
    return own is None or own.node != nominee.node or nominee.order < own.order


def nominated_room(state: ClusterState, pod: Pod) -> Int64:
    """int64 [R, N]: what nominated pods that go first will take of every node. Read only."""
    nominations, quota_of = state.nominations, state.ledger.quota_of
    quota = quota_of(pod.namespace)
    behind = {
        item.pod.uid: item
        for item in nominations.waiting(
            lambda ns, priority: priority < pod.priority and quota_of(ns) is quota
        )
    }
    own = nominations.get(pod.uid)
    if own is not None and nominations.counts(pod.uid):
        behind[pod.uid] = own
        beside = nominations.on_node(own.node, pod)
        behind |= {item.pod.uid: item for item in beside if not goes_first(state, item, pod)}
    return nominations.room(behind.values())


def ordinary_demand(state: ClusterState, pod: Pod, *, spare_quotas: bool) -> Demand:
    """Preemption by priority alone: all pods of strictly lower priority.

    With `spare_quotas` pods of namespaces that have a quota are nobody's victims here (rule 9).
    """
    table, size = state.table, state.table.size
    table.cover(len(state.index))
    victims = _available(state) & (table.priority[:size] < pod.priority)
    if spare_quotas:
        free = [state.ledger.quota_of(name) is None for name in table.namespaces.values]
        victims &= np.array([*free, True], dtype=np.bool_)[table.namespace[:size]]
    none: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    return Demand(pod, state.vector(pod), none, victims)


def quota_demand(state: ClusterState, pod: Pod, quota: ElasticQuota) -> Demand:
    """Preemption under a quota: reclaim from those over min, or lower priorities of the own namespace."""
    own, total = nominated_requests(state, pod)
    request = state.vector(pod)
    table, size = state.table, state.table.size
    table.cover(len(state.index))
    need = _sum_need(state, pod, total)
    if within_min(state.ledger, quota, pod.requests, own):
        lenders = _lenders(state, quota)
        borrows = np.append(lenders.of != NO_QUOTA, False)
        victims = _available(state) & borrows[table.namespace[:size]]
        return Demand(pod, request, need, victims, quota, lenders)
    need = np.maximum(need, _max_need(state, pod, quota, own))
    namespace = table.namespaces.find(pod.namespace)
    victims = _available(state) & (table.namespace[:size] == namespace)
    victims &= table.priority[:size] < pod.priority
    return Demand(pod, request, need, victims, quota)


def _available(state: ClusterState) -> Bool:
    """bool [rows]: placed pods that are not going already."""
    size = state.table.size
    return state.table.alive[:size] & ~state.table.going[:size]


def _deficit(
    state: ClusterState,
    pod: Pod,
    used: ResourceList,
    leaving: ResourceList,
    extra: ResourceList,
    limit: Mapping[str, int],
) -> Int64:
    """int64 [R]: by how much use that stays, nominations and the request exceed a limit; else 0."""
    need: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    for name, asked in charged(pod.requests).items():
        row = state.index.row(name)
        if asked > 0 and row is not None and name in limit:
            stays = used.get(name, 0) - leaving.get(name, 0)
            need[row] = max(0, stays + extra.get(name, 0) + asked - limit[name])
    return need


def _sum_need(state: ClusterState, pod: Pod, total: ResourceList) -> Int64:
    ledger = state.ledger
    return _deficit(state, pod, ledger.total_used, ledger.total_leaving, total, ledger.total_min)


def _max_need(state: ClusterState, pod: Pod, quota: ElasticQuota, own: ResourceList) -> Int64:
    ledger, namespace = state.ledger, quota.namespace
    return _deficit(state, pod, ledger.used(namespace), ledger.leaving(namespace), own, quota.max)


def _lenders(state: ClusterState, borrower: ElasticQuota) -> Lenders:
    """Quotas over min, without the preemptor's own; what is on its way out they do not borrow any more."""
    ledger, index = state.ledger, state.index
    found = [q for q in ledger.quotas() if q.namespace != borrower.namespace and over_min(ledger, q)]
    shape = (len(found), len(index))
    used, low = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)  # [Q, R]
    counts: Bool = np.zeros(shape, dtype=np.bool_)  # [Q, R]
    of: Int64 = np.full(len(state.table.namespaces), NO_QUOTA, dtype=np.int64)  # [namespaces]
    for number, quota in enumerate(found):
        in_use, leaving = ledger.used(quota.namespace), ledger.leaving(quota.namespace)
        for name in relevant(ledger, quota):
            row = index.row(name)
            if row is not None:
                used[number, row] = in_use.get(name, 0) - leaving.get(name, 0)
                low[number, row] = quota.min.get(name, 0)
                counts[number, row] = True
        namespace = state.table.namespaces.find(quota.namespace)
        if namespace >= 0:
            of[namespace] = number
    return Lenders(tuple(found), of, used, low, counts)
