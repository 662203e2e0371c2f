"""What a preemptor lacks, and whose pods may go for it: the rules of quota and priority as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import MOST_COUNTED, Int64
from scheduler_core.framework.pod_terms import reached_by_all
from scheduler_core.framework.preemption.nominated_sums import nominated_requests
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.gang import group_of
from scheduler_core.model.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, less
from scheduler_core.quota.policy import above_max, charge_within_min, lendable, over_min, relevant
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.selections import Selection

Bool = NDArray[np.bool_]
Rows = NDArray[np.int64]

NO_QUOTA: Final = -1


class Lenders(msgspec.Struct, frozen=True):
    """Quotas whose pods may be reclaimed, Q of them: use and min as int64 [Q, R], what counts as bool [Q, R].

    `of` is the quota's number per namespace id of the pod table, int64 [namespaces], NO_QUOTA for others.
    `excess` is use above max, int64 [Q, R], None where no quota uses more; `hidden`, int64 [R], is the part
    of it that has to end before the sum over all quotas falls: what pods without a node use need not.
    """

    quotas: tuple[ElasticQuota, ...]
    of: Int64
    used: Int64
    min: Int64
    counts: Bool
    excess: Int64 | None = None
    hidden: Int64 | None = None


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


def ordinary_demand(state: ClusterState, pod: Pod, *, spare_quotas: bool) -> Demand:
    """Preemption by priority alone: all pods of strictly lower priority.

    With `spare_quotas` pods of namespaces that have a quota are nobody's victims here (rule 9).
    """
    table, size = state.table, state.table.size
    table.cover(len(state.index))
    victims = _available(state, pod) & (table.priority[:size] < pod.priority)
    if spare_quotas:
        free = [state.ledger.quota_of(name) is None for name in table.namespaces.values]
        victims &= np.array([*free, True], dtype=np.bool_)[table.namespace[:size]]
    none: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    return Demand(pod, state.vector(pod), none, victims)


def quota_demand(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList | None = None
) -> Demand:
    """Preemption under a quota: reclaim from those over min, or lower priorities of the own namespace.

    `asked` is what is charged to the quota, the pod's requests unless given.
    """
    asked = charged(pod.requests) if asked is None else asked
    reclaim = reclaim_demand(state, pod, quota, asked)
    if reclaim is not None:
        return reclaim
    own, total = nominated_requests(state, pod)
    request = state.vector(pod)
    table, size = state.table, state.table.size
    table.cover(len(state.index))
    need = _with_hidden(state, quota, _sum_need(state, asked, total))
    need = np.maximum(need, _own_need(state, asked, quota, own, quota.max))
    namespace = table.namespaces.find(pod.namespace)
    victims = _available(state, pod) & (table.namespace[:size] == namespace)
    victims &= table.priority[:size] < pod.priority
    return Demand(pod, request, need, victims, quota)


def quota_demands(state: ClusterState, pod: Pod, quota: ElasticQuota) -> Iterator[Demand]:
    """What to look for, one after the other, until something is found: `quota_demand` in the first place.

    Evictions in its own quota may bring a pod within its min. Then less of what others hold stands in its
    way, so that victims may do which free less.
    """
    first = quota_demand(state, pod, quota)
    yield first
    if first.lenders is None:
        need = _need_within_min(state, pod, quota)
        if (need < first.need).any():
            yield msgspec.structs.replace(first, need=need)


def reclaim_demand(state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList) -> Demand | None:
    """Preemption of quotas over min, for what stays within the min of its own; None if it does not.

    `asked` is what is charged to the quota: the pod's requests, or those of a group of which it is one.
    """
    own, total = nominated_requests(state, pod)
    request = state.vector(pod)
    if not charge_within_min(state.ledger, quota, asked, own):
        return None
    table, size = state.table, state.table.size
    table.cover(len(state.index))
    lenders = _lenders(state, quota)
    borrows = np.append(lenders.of != NO_QUOTA, False)
    victims = _available(state, pod) & borrows[table.namespace[:size]]
    return Demand(pod, request, _sum_need(state, asked, total, guaranteed=True), victims, quota, lenders)


def _available(state: ClusterState, pod: Pod) -> Bool:
    """bool [rows]: placed pods that are not going already, without the members of the pod's own group."""
    size = state.table.size
    available: Bool = state.table.alive[:size] & ~state.table.going[:size]
    ref = group_of(pod)
    for uid in state.gangs.members(ref.key) if ref is not None else ():
        sibling = state.placed.get(uid)
        if sibling is not None:
            available[sibling.row] = False
    return available


def _deficit(
    state: ClusterState,
    asked: ResourceList,
    stays: ResourceList,
    extra: ResourceList,
    limit: Mapping[str, int],
) -> Int64:
    """int64 [R]: by how much use that stays, nominations and the request exceed a limit; else 0."""
    need: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    for name, amount in asked.items():
        row = state.index.row(name)
        if amount > 0 and row is not None and name in limit:
            short = stays.get(name, 0) + extra.get(name, 0) + amount - limit[name]
            need[row] = min(MOST_COUNTED, max(0, short))
    return need


def _sum_need(
    state: ClusterState, asked: ResourceList, total: ResourceList, *, guaranteed: bool = False
) -> Int64:
    stays = state.ledger.in_use(after_leaving=True, guaranteed=guaranteed)
    return _deficit(state, asked, stays, total, state.ledger.total_min)


def _with_hidden(state: ClusterState, quota: ElasticQuota, need: Int64) -> Int64:
    """What pods of a quota have to free for the sum over all quotas to fall by a need (int64 [R])."""
    for name, value in above_max(state.ledger, quota, after_leaving=True).items():
        row = state.index.row(name)
        if row is not None and need[row] > 0:
            # Nobody else counts what it uses above its max: that has to go before anything comes free.
            need[row] = min(MOST_COUNTED, int(need[row]) + value)
    return need


def _own_need(
    state: ClusterState, asked: ResourceList, quota: ElasticQuota, own: ResourceList, limit: ResourceList
) -> Int64:
    """int64 [R]: by how much the quota itself would be above a limit."""
    ledger, namespace = state.ledger, quota.namespace
    stays = less(ledger.used(namespace), ledger.leaving(namespace))
    return _deficit(state, asked, stays, own, limit)


def _need_within_min(state: ClusterState, pod: Pod, quota: ElasticQuota) -> Int64:
    """int64 [R]: what its own quota must free for a pod to be within the min, and to be let in then."""
    asked = charged(pod.requests)
    own, total = nominated_requests(state, pod, guaranteed=True)
    low = {name: quota.min.get(name, 0) for name in relevant(state.ledger, quota)}
    need = _with_hidden(state, quota, _sum_need(state, asked, total, guaranteed=True))
    return np.maximum(need, _own_need(state, asked, quota, own, low))


def _lenders(state: ClusterState, borrower: ElasticQuota) -> Lenders:
    """Quotas over min, without the preemptor's own, and what of their use could be given back."""
    ledger, index = state.ledger, state.index
    found = [q for q in ledger.quotas() if q.namespace != borrower.namespace and over_min(ledger, q)]
    shape = (len(found), len(index))
    used, low = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)  # [Q, R]
    counts: Bool = np.zeros(shape, dtype=np.bool_)  # [Q, R]
    excess: Int64 = np.zeros(shape, dtype=np.int64)  # [Q, R]
    hidden: Int64 = np.zeros(len(index), dtype=np.int64)  # [R]
    of: Int64 = np.full(len(state.table.namespaces), NO_QUOTA, dtype=np.int64)  # [namespaces]
    for number, quota in enumerate(found):
        in_use = lendable(ledger, quota)
        for name in relevant(ledger, quota):
            row = index.row(name)
            if row is not None:
                used[number, row] = min(MOST_COUNTED, in_use.get(name, 0))
                low[number, row] = quota.min.get(name, 0)
                counts[number, row] = True
        for name, value in above_max(ledger, quota, after_leaving=True).items():
            row = index.row(name)
            if row is not None:
                excess[number, row] = min(MOST_COUNTED, value)
                more = max(0, value - ledger.unplaced(quota.namespace).get(name, 0))
                hidden[row] = min(MOST_COUNTED, int(hidden[row]) + more)
        namespace = state.table.namespaces.find(quota.namespace)
        if namespace >= 0:
            of[namespace] = number
    above = (excess, hidden) if excess.any() else (None, None)
    return Lenders(tuple(found), of, used, low, counts, *above)


def without_needed(state: ClusterState, pod: Pod, demand: Demand) -> Bool:
    """bool [rows]: those who may go without the pods that the pod must be near to."""
    eligible = demand.eligible.copy()
    if pod.pod_affinity.required:
        eligible &= ~selected(state, eligible, reached_by_all(state, pod, pod.pod_affinity.required))
    return eligible


def selected(state: ClusterState, among: Bool, selection: Selection) -> Bool:
    """bool [rows]: those of some pods (bool [rows]) that a selection takes."""
    if selection.namespaces is not None:
        known = [state.table.namespaces.find(name) for name in selection.namespaces]
        among = among & np.isin(state.table.namespace[: len(among)], known)
    return where(state, among, selection.takes)


def where(state: ClusterState, among: Bool, takes: Callable[[Pod], bool]) -> Bool:
    """bool [rows]: those of some pods (bool [rows]) that a test takes."""
    out: Bool = np.zeros(len(among), dtype=np.bool_)
    for row in np.flatnonzero(among).tolist():
        pod = state.table.pods[row]
        out[row] = pod is not None and takes(pod)
    return out
