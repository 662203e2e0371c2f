"""The demand of a preemptor: which resources it lacks and which pods may be its victims, as arrays.

Applies the rules of quotas and priorities (docs/quota.md#preemption). Pods of quotas that use more than their
max, or whose group does, are victims before all others: such use counts against no other quota, so it has to
end before an eviction frees anything of the sum over all quotas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import MOST_COUNTED
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.nominations.nominated_sums import nominated_requests
from scheduler_core.framework.pod_terms import selected_by_all
from scheduler_core.framework.preemption.covered import spared
from scheduler_core.framework.preemption.flavor_loans import kept_by_flavor
from scheduler_core.framework.preemption.group_loans import TreeClaim, claims
from scheduler_core.framework.preemption.group_need import short_of_group_max, with_kept_back
from scheduler_core.framework.preemption.hidden_use import (
    count_excess,
    with_groups,
    with_own,
    with_own_and_groups,
)
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.names import FLAVOR_PREFIX, GUARANTEED_RESOURCES
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.aggregate import (
    counts_guarantees,
    guaranteed,
    reclaims_guaranteed,
    sum_limits,
)
from scheduler_core.quota.fair_moves import FairMove
from scheduler_core.quota.ledger import QuotaLedger, charged, less
from scheduler_core.quota.policy import (
    charge_within_min,
    lendable,
    over_min,
    reclaimable_from,
    relevant,
)
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.selections import Selection
from scheduler_core.state.placed.calm import Calm, calm_of
from scheduler_core.state.placed.pods import PodTable

Rows = NDArray[np.int64]

NO_QUOTA: Final = -1


class Borrowers(msgspec.Struct, frozen=True):
    """Q quotas over their min, whose pods may be evicted in a reclaim.

    `used` and `min` are int64 [Q, R]; `counts` bool [Q, R] marks the resources that a quota limits. `of` is
    the quota's number per namespace id of the pod table, int64 [namespaces], NO_QUOTA for other namespaces.
    `excess` is use above max of a quota or of a group above it, int64 [Q, R], None if there is none.
    `hidden`, int64 [R], is the part of it that has to end before the sum over all quotas falls; use of pods
    without a node need not.
    With `fair`, `min` are the floors of a fair move, below which no victim may take its quota. In a tree,
    `min` is what the quota keeps by its own min and those of its groups; `first` bool [Q] marks the quotas
    whose pods go before others (`group_loans.TreeClaim`).
    """

    quotas: tuple[ElasticQuota, ...]
    of: Int64
    used: Int64
    min: Int64
    counts: Bool
    excess: Int64 | None = None
    hidden: Int64 | None = None
    fair: FairMove | None = None
    first: Bool | None = None


class Demand(msgspec.Struct, frozen=True):
    """The demand of a preemptor. `need` int64 [R]: what victims must free so that its quota admits it.

    `eligible` bool [rows] marks the rows of the pod table that may be victims. `borrowers` is set if the pod
    reclaims its min from other quotas; then the over-min test applies to every victim. `calm`: pods that
    could be victims, but have not run for long enough; they are not eligible. `nodes` bool [N] are those that
    the pod may get, None for all.
    """

    pod: Pod
    request: Int64
    need: Int64
    eligible: Bool
    quota: ElasticQuota | None = None
    borrowers: Borrowers | None = None
    calm: Calm | None = None
    nodes: Bool | None = None

    @property
    def until(self) -> float:
        """When the first pod may be taken that has not run for long enough; infinite if there is none."""
        return self.calm.until if self.calm is not None else math.inf


def ordinary_demand(state: ClusterState, pod: Pod, *, spare_quotas: bool) -> Demand:
    """Preemption by priority alone: all pods of lower priority are eligible.

    With `spare_quotas`, pods of namespaces that have a quota are not eligible.
    """
    table, size = state.table, state.table.size
    table.cover(len(state.index))
    victims = available(state, pod) & (table.priority[:size] < pod.priority)
    if spare_quotas:
        free = [state.ledger.quota_of(name) is None for name in table.namespaces.values]
        victims &= np.array([*free, True], dtype=np.bool_)[table.namespace[:size]]
    none: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    return Demand(pod, state.vector(pod), none, victims)


def quota_demand(state: ClusterState, pod: Pod, quota: ElasticQuota, now: float = math.inf) -> Demand:
    """Preemption under a quota: reclaim from quotas over min, or evict pods of its own namespace."""
    return next(quota_demands(state, pod, quota, now))


def requested(state: ClusterState, pod: Pod, asked: ResourceList) -> Int64:
    """int64 [R]: what a pod needs of a node; with the flavors in its charge only nodes of these will do."""
    vector = state.vector(pod)
    for name in asked:
        if name.startswith(FLAVOR_PREFIX):
            row = state.index.row(name)
            if row is not None:
                vector[row] = asked[name]
    return vector


def own_quota_demand(state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList) -> Demand:
    """Evict pods of lower priority of the own namespace, without those that the pod must spare.

    `asked` is what is charged to the quota.
    """
    own, total = nominated_requests(state, pod)
    request = requested(state, pod, asked)
    table, size = state.table, state.table.size
    table.cover(len(state.index))
    limits = sum_limits(state.ledger, quota, asked, own)
    guaranteeing = counts_guarantees(state.ledger, quota, asked, own)
    total = with_kept_back(state, pod, quota, total, asked, guaranteeing=guaranteeing)
    sums = _sum_need(state, asked, total, limits, guaranteeing=guaranteeing)
    need = np.maximum(
        _need_inside(state, pod, quota, asked, own, sums), _own_need(state, asked, quota, own, quota.max)
    )
    namespace = table.namespaces.find(pod.namespace)
    victims = available(state, pod) & (table.namespace[:size] == namespace)
    victims &= table.priority[:size] < pod.priority
    if victims.any():
        victims &= ~spared(state, quota, pod.priority, asked, own)
    return Demand(pod, request, need, victims, quota)


def quota_demands(
    state: ClusterState,
    pod: Pod,
    quota: ElasticQuota,
    now: float = math.inf,
    asked: ResourceList | None = None,
) -> Iterator[Demand]:
    """Demands to try in order until one succeeds; the first is `quota_demand`.

    `asked` is what is charged to the quota; by default what the pod will be charged wherever it runs.

    Evictions in its own quota may bring a pod within its min, or within what its quota guarantees. Then less
    use of other quotas counts against it, so that victims which free less may suffice. A pod that reclaims
    although it borrows may evict pods of its own quota instead.
    """
    asked = charged(state.nodes.flavors.asked(pod)) if asked is None else asked
    turns = reclaim_demands(state, pod, quota, asked, now) or [own_quota_demand(state, pod, quota, asked)]
    yield from turns
    first = turns[0]
    if first.borrowers is not None:
        if charge_within_min(state.ledger, quota, asked, nominated_requests(state, pod)[0]):
            return
        first = own_quota_demand(state, pod, quota, asked)
        yield first
    for needs in (need_within_min, need_within_guarantees):
        need = needs(state, pod, quota, asked)
        if (need < first.need).any():
            yield msgspec.structs.replace(first, need=need)


def reclaim_demand(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, now: float = math.inf
) -> Demand | None:
    """The first of `reclaim_demands`, or None."""
    return next(iter(reclaim_demands(state, pod, quota, asked, now)), None)


def reclaim_demands(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, now: float = math.inf
) -> list[Demand]:
    """Reclaim from quotas over min, for a charge that may reclaim (`policy.may_reclaim`); none for others.

    `asked` is what is charged to the quota: the requests of the pod or of its whole group. Pods that run for
    less than the time that their quota asks for at `now` are no victims, nor are those on nodes of a flavor
    of which their quota borrows nothing. Without groups of quotas there is one demand; in a tree each of its
    claims makes one.
    """
    ledger = state.ledger
    own, total = nominated_requests(state, pod)
    request = requested(state, pod, asked)
    within = charge_within_min(ledger, quota, asked, own)
    if not (within or reclaims_guaranteed(ledger, quota, asked, own)):
        return []
    table = state.table
    table.cover(len(state.index))
    limits = sum_limits(ledger, quota, asked, own)
    guaranteeing = counts_guarantees(ledger, quota, asked, own)
    total = with_kept_back(state, pod, quota, total, asked, guaranteed=within, guaranteeing=guaranteeing)
    need = _sum_need(state, asked, total, limits, guaranteed=within, guaranteeing=guaranteeing)
    need = np.maximum(with_groups(state, quota, need), _group_need(state, pod, quota, asked, own))
    turns: Sequence[TreeClaim | None] = (None,)
    if ledger.tree:
        turns = claims(state, pod, quota, asked, borrows_itself=not within)
    demands = []
    for claim in turns:
        borrowers = _borrowers_of_reclaim(state, quota, claim, borrows=not within)
        victims = reclaimable(state, pod) & of_borrowers(table, borrowers)
        if state.nodes.flavors:
            left = borrowers.used - borrowers.min
            victims &= ~kept_by_flavor(state, borrowers.quotas, borrowers.of, left, len(victims))
        least = [other.sharing.reclaim_min_runtime for other in borrowers.quotas]
        calm = calm_of(table, victims & ~table.late[: len(victims)], borrowers.of, least, now)
        demands.append(Demand(pod, request, need, victims & ~calm.young, quota, borrowers, calm))
    return demands


def of_borrowers(table: PodTable, borrowers: Borrowers) -> Bool:
    """bool [rows]: rows of the pod table whose pods are of one of the quotas."""
    found: Bool = np.append(borrowers.of != NO_QUOTA, False)[table.namespace[: table.size]]
    return found


def available(state: ClusterState, pod: Pod) -> Bool:
    """bool [rows]: placed pods that do not end and are not members of the pod's own group.

    Without those of lost nodes, and those that the API server does not let go: nobody would end them, so they
    would be evicted in vain.
    """
    state.rank_members()
    state.table.share_out()
    table, size = state.table, state.table.size
    available: Bool = table.alive[:size] & ~table.ending[:size] & state.nodes.ends_pods[table.slot[:size]]
    # In a trial, some of them may have no node for now.
    available[[state.placed[uid].row for uid in state.departures.stuck if uid in state.placed]] = False
    ref = group_of(pod)
    for uid in state.gangs.members(ref.key) if ref is not None else ():
        sibling = state.placed.get(uid)
        if sibling is not None:
            available[sibling.row] = False
    return available


def reclaimable(state: ClusterState, pod: Pod) -> Bool:
    """bool [rows]: `available` pods, and those that end later than others have to wait for."""
    found = available(state, pod)
    found |= state.table.late[: len(found)] & state.table.alive[: len(found)]
    return found


def _deficit(
    state: ClusterState,
    asked: ResourceList,
    stays: ResourceList,
    extra: ResourceList,
    limit: Mapping[str, int],
) -> Int64:
    """int64 [R]: by how much remaining use, nominations and the request exceed a limit, at least 0."""
    need: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    for name, amount in asked.items():
        row = state.index.row(name)
        if amount > 0 and row is not None and name in limit:
            short = stays.get(name, 0) + extra.get(name, 0) + amount - limit[name]
            need[row] = min(MOST_COUNTED, max(0, short))
    return need


def _sum_need(
    state: ClusterState,
    asked: ResourceList,
    total: ResourceList,
    limits: ResourceList,
    *,
    guaranteed: bool = False,
    guaranteeing: bool = False,
) -> Int64:
    stays = state.ledger.in_use(after_leaving=True, guaranteed=guaranteed, guaranteeing=guaranteeing)
    return _deficit(state, asked, stays, total, limits)


def _need_inside(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, own: ResourceList, sums: Int64
) -> Int64:
    """int64 [R]: what pods of the own quota must free so that all quotas use less by `sums` (int64 [R]), and
    the groups above the quota admit the charge.
    """
    groups = with_own(state, quota, _group_need(state, pod, quota, asked, own))
    return np.maximum(with_own_and_groups(state, quota, sums), groups)


def _own_need(
    state: ClusterState, asked: ResourceList, quota: ElasticQuota, own: ResourceList, limit: ResourceList
) -> Int64:
    """int64 [R]: by how much the quota itself would exceed a limit."""
    ledger, namespace = state.ledger, quota.namespace
    stays = less(ledger.used(namespace), ledger.leaving(namespace))
    return _deficit(state, asked, stays, own, limit)


def _group_need(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, own: ResourceList
) -> Int64:
    """int64 [R]: by how much the groups above the quota would exceed their max."""
    need: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    if state.ledger.groups_above(quota.namespace):
        for name, short in short_of_group_max(state, pod, quota, asked, own).items():
            row = state.index.row(name)
            if row is not None:
                need[row] = min(MOST_COUNTED, short)
    return need


def need_within_min(state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList) -> Int64:
    """int64 [R]: what the own quota must free so that a charge of `asked` is within its min and admitted."""
    own, total = nominated_requests(state, pod, guaranteed=True)
    low = {name: quota.min.get(name, 0) for name in relevant(state.ledger, quota)}
    guaranteeing = state.ledger.aggregate == GUARANTEED_RESOURCES and bool(guaranteed(quota))
    total = with_kept_back(state, pod, quota, total, asked, guaranteed=True, guaranteeing=guaranteeing)
    sums = _sum_need(state, asked, total, state.ledger.total_min, guaranteed=True, guaranteeing=guaranteeing)
    inside = _need_inside(state, pod, quota, asked, own, sums)
    return np.maximum(inside, _own_need(state, asked, quota, own, low))


def need_within_guarantees(state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList) -> Int64:
    """int64 [R]: what the own quota must free so that a charge is within what it guarantees, and admitted.

    Without guarantees, or where they change no limit: what any charge of `asked` must free.
    """
    own, total = nominated_requests(state, pod)
    names = guaranteed(quota) if state.ledger.aggregate == GUARANTEED_RESOURCES else frozenset()
    low = {name: quota.min[name] for name in names}
    limits = state.ledger.total_min
    if names:
        limits = {name: value for name, value in limits.items() if name in names}
    total = with_kept_back(state, pod, quota, total, asked, guaranteeing=bool(names))
    sums = _sum_need(state, asked, total, limits, guaranteeing=bool(names))
    need = _need_inside(state, pod, quota, asked, own, sums)
    need = np.maximum(need, _own_need(state, asked, quota, own, quota.max))
    return np.maximum(need, _own_need(state, asked, quota, own, low))


def _borrowers_of_reclaim(
    state: ClusterState, borrower: ElasticQuota, claim: TreeClaim | None, *, borrows: bool
) -> Borrowers:
    """Quotas over min, without the preemptor's own, and how much each of them borrows.

    `claim` says which quotas may lose how much in a tree, None without groups. `borrows`: the preemptor
    borrows itself, see `policy.reclaimable_from`.
    """
    ledger = state.ledger
    others = (quota for quota in ledger.quotas() if quota.namespace != borrower.namespace)
    found = []
    for quota in others:
        if claim is None and over_min(ledger, quota, borrows=borrows):
            names = reclaimable_from(ledger, quota, borrows=borrows)
            found.append((quota, {name: quota.min.get(name, 0) for name in names}))
        elif claim is not None and quota.namespace in claim.loans:
            found.append((quota, _kept_in_tree(ledger, quota, claim, borrows=borrows)))
    first = None
    if claim is not None and claim.first:
        first = np.array([quota.namespace in claim.first for quota, _ in found], dtype=np.bool_)
    return msgspec.structs.replace(borrowers_with(state, borrower, found), first=first)


def _kept_in_tree(
    ledger: QuotaLedger, quota: ElasticQuota, claim: TreeClaim, *, borrows: bool
) -> dict[str, int]:
    """What a quota keeps in a tree: what it uses, without what the claim may take."""
    used, loans = lendable(ledger, quota), claim.loans[quota.namespace]
    return {
        name: min(MOST_COUNTED, used.get(name, 0)) - loans.get(name, 0)
        for name in reclaimable_from(ledger, quota, borrows=borrows)
    }


def borrowers_with(
    state: ClusterState,
    taker: ElasticQuota,
    found: Sequence[tuple[ElasticQuota, Mapping[str, int]]],
    fair: FairMove | None = None,
) -> Borrowers:
    """Quotas, each with what it keeps of the resources that limit its victims. They give to `taker`."""
    ledger, index = state.ledger, state.index
    shape = (len(found), len(index))
    used, low = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)  # [Q, R]
    counts: Bool = np.zeros(shape, dtype=np.bool_)  # [Q, R]
    excess: Int64 = np.zeros(shape, dtype=np.int64)  # [Q, R]
    hidden: Int64 = np.zeros(len(index), dtype=np.int64)  # [R]
    of: Int64 = np.full(len(state.table.namespaces), NO_QUOTA, dtype=np.int64)  # [namespaces]
    for number, (quota, keeps) in enumerate(found):
        in_use = lendable(ledger, quota)
        for name, least in keeps.items():
            row = index.row(name)
            if row is not None:
                used[number, row] = min(MOST_COUNTED, in_use.get(name, 0))
                low[number, row] = least
                counts[number, row] = True
        namespace = state.table.namespaces.find(quota.namespace)
        if namespace >= 0:
            of[namespace] = number
    quotas = tuple(quota for quota, _ in found)
    count_excess(state, quotas, excess, hidden, ledger.groups_above(taker.namespace))
    if not excess.any():
        return Borrowers(quotas, of, used, low, counts, fair=fair)
    return Borrowers(quotas, of, used, low, counts, excess, hidden, fair)


def without_needed(state: ClusterState, pod: Pod, demand: Demand) -> Bool:
    """bool [rows]: eligible pods, without those that the pod's required affinity selects."""
    eligible = demand.eligible.copy()
    if pod.pod_affinity.required:
        eligible &= ~selected(state, eligible, selected_by_all(state, pod, pod.pod_affinity.required))
    return eligible


def selected(state: ClusterState, among: Bool, selection: Selection) -> Bool:
    """bool [rows]: the pods of `among` that a selection contains."""
    if selection.namespaces is not None:
        known = [state.table.namespaces.find(name) for name in selection.namespaces]
        among = among & np.isin(state.table.namespace[: len(among)], known)
    if selection.live:
        among = among & ~state.table.ending[: len(among)]
    return where(state, among, selection.takes)


def where(state: ClusterState, among: Bool, takes: Callable[[Pod], bool]) -> Bool:
    """bool [rows]: the pods of `among` for which `takes` is true."""
    out: Bool = np.zeros(len(among), dtype=np.bool_)
    for row in np.flatnonzero(among).tolist():
        pod = state.table.pods[row]
        out[row] = pod is not None and takes(pod)
    return out


def quotas_above_max(borrowers: Borrowers, request: Int64) -> Bool:
    """bool [Q]: quotas that use more than their max, or whose group does, of a requested resource (`request`
    int64 [R]).
    """
    if borrowers.excess is None:
        return np.zeros(len(borrowers.quotas), dtype=np.bool_)
    asked = request[: borrowers.excess.shape[1]] > 0
    return np.asarray((borrowers.excess[:, asked] > 0).any(axis=1))


def weightless(borrowers: Borrowers) -> Bool:
    """bool [Q]: the quotas of weight 0, which lose first in a fair move."""
    return np.array([not quota.sharing.weight for quota in borrowers.quotas], dtype=np.bool_)


def demands_in_order(table: PodTable, demand: Demand) -> Iterator[Demand]:
    """Demands to try in order until one succeeds; one demand if no quota is above its max.

    Otherwise: with victims of quotas above their max only, then with all eligible victims (those of quotas
    above their max first), then with the other victims only.
    """
    borrowers = demand.borrowers
    first = quotas_above_max(borrowers, demand.request) if borrowers is not None else None
    if borrowers is None or borrowers.hidden is None or first is None or not first.any():
        yield demand
        return
    owners = np.append(borrowers.of, -1)[table.namespace[: len(demand.eligible)]]
    theirs: Bool = (owners >= 0) & np.append(first, False)[owners]
    hidden, need = borrowers.hidden, demand.need.copy()
    short = need[: len(hidden)] > 0
    need[: len(hidden)][short] += hidden[short]
    yield msgspec.structs.replace(demand, need=need, eligible=demand.eligible & theirs)
    yield msgspec.structs.replace(demand, need=need)
    yield msgspec.structs.replace(demand, eligible=demand.eligible & ~theirs)
