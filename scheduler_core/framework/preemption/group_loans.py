"""Claims in a tree of quotas: from which quotas a charge may take, and how much (docs/quota-trees.md#claims).

A charge within the min of its quota claims on behalf of the highest node above it (quota or group) that stays
within its own min with the charge. Its victims belong to the siblings of this node: to quotas that are over
their min, in groups that are all over their min. A large charge can need more than these siblings borrow;
then it also claims on behalf of nodes further up, which its victims bring within their min. Where nodes are
short and not quota, nobody outside may borrow; then it claims on behalf of nodes further down, at last of its
own quota.

Every quota and every group keeps its min. What quotas of one group may lose together is at most what the
group borrows: it is divided among them, the one with the highest share first. Where these find no victims,
each of the others comes first in turn (`claims`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from scheduler_core.framework.nominations.nominated_sums import nominated_by_quota, own_nominated
from scheduler_core.framework.preemption.flavor_loans import keeps_flavors, units_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.fair_shares import ShareScale, WeightedShare, borrows, scale_of
from scheduler_core.quota.group_limits import Reading, nominated_in
from scheduler_core.quota.ledger import QuotaLedger, charged, plus, shift
from scheduler_core.quota.policy import lendable, reclaimable_from, relevant
from scheduler_core.quota.tree import GroupAccount
from scheduler_core.state.cluster import ClusterState

# How many quotas come first in turn when what a group borrows is divided.
MOST_TURNS: Final = 8


class TreeClaim(NamedTuple):
    """What may be taken: per namespace and resource, the amount above the min of the quota and of its groups.

    `first` are the namespaces of the nearer siblings, whose pods go before others.
    """

    loans: dict[str, dict[str, int]]
    first: frozenset[str] = frozenset()


class _Borrower(NamedTuple):
    """A quota that may give back; `chain` are the groups above it up to the siblings of the claiming node."""

    quota: ElasticQuota
    chain: tuple[GroupAccount, ...]
    left: dict[str, int]


def claims(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, *, borrows_itself: bool
) -> list[TreeClaim]:
    """The claims of a charge to try in order.

    `borrows_itself`: only what its quota guarantees stays within min, see `policy.reclaimable_from`.
    """
    ledger = state.ledger
    way = _WayUp(state, pod, quota, asked)
    start = way.highest(reclaimable_from(ledger, quota, borrows=borrows_itself))
    found: list[TreeClaim] = []
    nearer: list[_Borrower] = []
    inside = range(start - 1, -1, -1)
    for level in (*range(start, len(way.groups) + 1), *inside):
        here = _borrowers_at(ledger, quota, way.groups, level, borrows_itself=borrows_itself)
        if here or level == start:
            first = frozenset(item.quota.namespace for item in nearer)
            everybody = [*nearer, *here]
            found += [TreeClaim(loans, first) for loans in _divisions(ledger, everybody)]
            nearer = everybody
    return found


class _WayUp:
    """The nodes from a quota up to the root, with the use of each once the charge is added."""

    def __init__(self, state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList) -> None:
        self._asked = asked
        self._namespace = quota.namespace
        self._own = own_nominated(state, pod)
        self._others = nominated_by_quota(state, pod)
        self._reading = Reading(state.ledger, self._others, after_leaving=True)
        self.groups = state.ledger.groups_above(quota.namespace)

    def highest(self, names: Iterable[str]) -> int:
        """The highest level that stays within its min: 0 is the quota itself, above it are its groups.

        It is below every group whose max has no room for the charge: only victims in this group make room.
        """
        known = [name for name in names if self._asked.get(name, 0) > 0]
        found = 0
        for level, group in enumerate(self.groups, start=1):
            if any(self._with_charge(group, name) > most for name, most in group.group.max.items()):
                break
            if not self.above_min(group, known):
                found = level
        return found

    def above_min(self, group: GroupAccount, names: Iterable[str]) -> bool:
        """Whether a group would be over its min in any of the resources."""
        return any(
            self._with_charge(group, name) + self._reading.kept_below(group, self.groups, name)
            > group.min.get(name, 0)
            for name in names
        )

    def _with_charge(self, group: GroupAccount, name: str) -> int:
        """What a group uses with the charge and nominated pods; 0 of what the charge does not ask for."""
        asked = self._asked.get(name, 0)
        if not asked:
            return 0
        coming = plus(self._own, nominated_in(group, self._others, without=self._namespace))
        return group.sums.amount(name, after_leaving=True) + coming.get(name, 0) + asked


def _borrowers_at(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    groups: Sequence[GroupAccount],
    level: int,
    *,
    borrows_itself: bool,
) -> list[_Borrower]:
    """The quotas below the siblings of a node that may give back; the highest share first."""
    node = groups[level - 1] if level else None
    parent = groups[level] if level < len(groups) else None
    scale = scale_of(ledger)
    found: list[tuple[list[WeightedShare], _Borrower]] = []
    for other in ledger.quotas():
        above = ledger.groups_above(other.namespace)
        if other.namespace == quota.namespace or node in above or not (parent is None or parent in above):
            continue
        chain = above if parent is None else above[: above.index(parent)]
        left = _left(ledger, other, chain, borrows_itself=borrows_itself)
        if any(value > 0 for value in left.values()):
            borrower = _Borrower(other, chain, left)
            found.append((_shares(ledger, scale, borrower), borrower))
    # Quotas of equal shares by name.
    found.sort(key=lambda item: item[1].quota.namespace)
    found.sort(key=lambda item: item[0], reverse=True)
    return [borrower for _, borrower in found]


def _left(
    ledger: QuotaLedger, quota: ElasticQuota, chain: Sequence[GroupAccount], *, borrows_itself: bool
) -> dict[str, int]:
    """By how much a quota and all groups of its chain exceed their min; negative where one has room."""
    used = lendable(ledger, quota)
    left = {}
    for name in reclaimable_from(ledger, quota, borrows=borrows_itself):
        over = used.get(name, 0) - quota.min.get(name, 0)
        left[name] = min([over, *(_group_left(ledger, group, name) for group in chain)])
    return left


def _group_left(ledger: QuotaLedger, group: GroupAccount, name: str) -> int:
    """What a group uses and keeps back above its min; negative: its room."""
    used = group.sums.amount(name, after_leaving=True)
    if group.holds_back:
        reading = Reading(ledger, after_leaving=True)
        used += sum(reading.kept(child, name) for child in group.children)
    return used - group.min.get(name, 0)


def _shares(ledger: QuotaLedger, scale: ShareScale, borrower: _Borrower) -> list[WeightedShare]:
    """The shares of the groups of a borrower, from the top down, and its own."""
    found = [
        scale.share(
            {name: max(0, _group_left(ledger, group, name)) for name in ledger.total_min}, group.group.weight
        )
        for group in reversed(borrower.chain)
    ]
    quota = borrower.quota
    return [*found, scale.share(borrows(ledger, quota), quota.sharing.weight)]


def _divisions(ledger: QuotaLedger, borrowers: Sequence[_Borrower]) -> list[dict[str, dict[str, int]]]:
    """What each borrower may lose, so that no group loses more than it borrows; in different orders."""
    first = _divided(ledger, borrowers)
    found = [first]
    if all(first.get(item.quota.namespace) == item.left for item in borrowers):
        return found
    for index in range(1, min(len(borrowers), MOST_TURNS)):
        order = [borrowers[index], *borrowers[:index], *borrowers[index + 1 :]]
        division = _divided(ledger, order)
        if division not in found:
            found.append(division)
    return found


def _divided(ledger: QuotaLedger, borrowers: Sequence[_Borrower]) -> dict[str, dict[str, int]]:
    spent: dict[tuple[str, str], int] = {}
    found: dict[str, dict[str, int]] = {}
    for quota, chain, left in borrowers:
        may: dict[str, int] = {}
        for name, value in left.items():
            rest = [_group_left(ledger, group, name) - spent.get((group.name, name), 0) for group in chain]
            may[name] = min([value, *rest])
            for group in chain:
                key = (group.name, name)
                spent[key] = spent.get(key, 0) + max(0, may[name])
        found[quota.namespace] = may
    return {namespace: may for namespace, may in found.items() if any(value > 0 for value in may.values())}


def keeps_guarantees(state: ClusterState, pod: Pod, victims: Iterable[Pod]) -> bool:
    """Whether groups keep their min when pods of other quotas go for a pod or for its gang, and quotas their
    min of each flavor.

    In some order, each group that is not above the pod is over its min before one of its pods goes, in a
    resource that limits the quota of the pod and that the pod uses. Victims that are all that runs of a gang
    go together.
    """
    ledger, quota, victims = state.ledger, state.ledger.quota_of(pod.namespace), list(victims)
    if not keeps_flavors(state, pod, victims):
        return False
    if not ledger.tree or quota is None:
        return True
    groups = ledger.groups_above(quota.namespace)
    lost: dict[str, dict[str, dict[str, int]]] = {}
    units = units_of(state, victims)
    for victim in victims:
        for group in ledger.groups_above(victim.namespace):
            if group not in groups:
                unit = lost.setdefault(group.name, {}).setdefault(units[victim.uid], {})
                shift(unit, _limited(state, victim))
    accounts = ledger.tree.accounts
    return all(_lawful(ledger, accounts[name], list(amounts.values())) for name, amounts in lost.items())


def _limited(state: ClusterState, pod: Pod) -> dict[str, int]:
    """What a pod is charged of the resources that limit its quota."""
    quota = state.ledger.quota_of(pod.namespace)
    names = relevant(state.ledger, quota) if quota is not None else frozenset[str]()
    return {name: value for name, value in charged(state.charge_of(pod)).items() if name in names}


def _lawful(ledger: QuotaLedger, group: GroupAccount, amounts: Sequence[ResourceList]) -> bool:
    """Whether a group is over its min before the last of these units of victims goes."""
    total: dict[str, int] = {}
    for amount in amounts:
        shift(total, amount)
    return any(
        _group_left(ledger, group, name) - total[name] + value > 0
        for amount in amounts
        for name, value in amount.items()
        if value > 0
    )
