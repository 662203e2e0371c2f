"""The quota ledger: the single source of what each namespace uses, and of the quota that binds it.

Every assigned pod that has not finished is charged to its namespace, whether or not the namespace has a
quota. So a quota that is created, changed or deleted after its pods applies at once. Pods that admission has
charged count before they have a node. One quota binds per namespace: the oldest by creation time, then by
name (docs/quota.md#what-is-counted).

Plain dicts of exact integers: a check touches only the two or three resources that a pod names, which is
quicker than any array, and the command line needs no numpy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from scheduler_core.errors import MusterError
from scheduler_core.model.names import ALL_RESOURCES, PODS, Aggregate
from scheduler_core.model.quotas.borrowing import FIRST_COME_FIRST_SERVED, Borrowing
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.account import NO_ACCOUNT, Account
from scheduler_core.quota.flavor_costs import FlavorCosts
from scheduler_core.quota.group_accounts import NO_GROUPS, Ancestors, GroupAccounts
from scheduler_core.quota.sums_above import SumsAbove, reaches_max


class LedgerError(MusterError):
    """A charge or refund that contradicts the ledger: a defect in the code, never bad input."""

    def __init__(self, namespace: str, uid: str, problem: str) -> None:
        self.namespace = namespace
        self.uid = uid
        self.problem = problem
        super().__init__(namespace, uid, problem)


def charged(requests: ResourceList) -> dict[str, int]:
    """The charge of a pod with these requests: the requests, and one of `pods`."""
    return {**requests, PODS: 1}


class QuotaLedger:
    """Use per namespace, and the sums over all quotas that borrowing is bounded by.

    `total_used[r]` runs over namespaces that have a quota, `total_min[r]` over the children of the root: the
    groups without a parent, and the quotas without a group. A resource is in `total_min` exactly if one of
    them names it in `min`; others are outside the aggregate rule. What a quota, or all quotas of a group
    together, use above max is not in `total_used`. `total_leaving` and `total_fixed` are parts of it, and
    `total_both` is the part that ends with either (see `Share`). `unguaranteed` are the parts of these four
    that quotas use which guarantee nothing of the resource. `aggregate` says how the rules read the sums
    (`scheduler_core.quota.aggregate`); no sum depends on it. `borrowing` are the rules among borrowers,
    `tree` the groups above the quotas.
    """

    def __init__(self, aggregate: Aggregate = ALL_RESOURCES) -> None:
        self.aggregate: Aggregate = aggregate
        self.borrowing: Borrowing = FIRST_COME_FIRST_SERVED
        self._accounts: dict[str, Account] = {}
        self.tree = GroupAccounts()
        self.costs = FlavorCosts({})
        # The sum of min of all quotas, whatever their groups; and how many name each resource.
        self._flat_min: dict[str, int] = {}
        self._min_named: dict[str, int] = {}
        self.total_min: dict[str, int] = self._flat_min
        self._sums = SumsAbove()
        self.total_used, self.total_leaving, self.total_fixed, self.total_both = self._sums.everybody.parts
        self.unguaranteed = self._sums.everybody.unguaranteed
        self.version = 0
        # Grows when the quota that binds in a namespace changes in more than its status.
        self.quotas_version = 0
        # Namespaces whose use changed, for each reader that asked (`follow`).
        self._followers: list[set[str]] = []

    def follow(self) -> set[str]:
        """A set to which every namespace is added whose use changes from now on; the caller empties it."""
        changed: set[str] = set()
        self._followers.append(changed)
        return changed

    def _changed(self, account: Account) -> None:
        account.known.clear()
        self.version += 1
        for changed in self._followers:
            changed.add(account.namespace)

    # Quotas

    def put_quota(self, quota: ElasticQuota) -> None:
        """Add a quota or replace the one of the same namespace and name."""
        account = self._accounts.setdefault(quota.namespace, Account(quota.namespace))
        kept = [other for other in account.quotas if other.name != quota.name]
        self._rebind(account, sorted([*kept, quota], key=lambda item: item.age_order))

    def remove_quota(self, namespace: str, name: str) -> None:
        """Forget a quota; the next oldest binds, if there is one."""
        account = self._accounts.get(namespace)
        if account is not None:
            self._rebind(account, [other for other in account.quotas if other.name != name])

    def _rebind(self, account: Account, quotas: list[ElasticQuota]) -> None:
        before = account.quota
        self._count_min(account, -1)
        self._sums.leave(account)
        account.quotas = quotas
        account.groups = self.tree.above(account.quota)
        self._count_min(account, +1)
        self._sums.join(account)
        self._sum_min()
        for other in self._accounts.values():
            other.known.clear()
        self.version += 1
        if not _decides_alike(before, account.quota):
            self.quotas_version += 1

    def _count_min(self, account: Account, sign: int) -> None:
        for name, value in account.quotas[0].min.items() if account.quotas else ():
            self._flat_min[name] = self._flat_min.get(name, 0) + sign * value
            self._min_named[name] = self._min_named.get(name, 0) + sign
            if not self._min_named[name]:
                del self._min_named[name], self._flat_min[name]

    def _sum_min(self) -> None:
        """Set what groups guarantee, and the sum of min of the root's children."""
        self.total_min = self.tree.guarantee(self.quotas()) if self.tree else self._flat_min

    # Groups

    def flavors_changed(self, flavors: Mapping[str, QuotaFlavor]) -> None:
        """Take over all flavors, by virtual resource: their costs count in shares."""
        self.costs = FlavorCosts(flavors)
        self.version += 1
        self.quotas_version += 1

    def put_group(self, group: QuotaGroup) -> None:
        """Add a group, or replace the one of the same name."""
        old = self.tree.groups.get(group.name)
        self.tree.groups[group.name] = group
        if old is not None and old.rules() == group.rules():
            self.tree.accounts[group.name].group = group
        else:
            self._regroup()

    def remove_group(self, name: str) -> None:
        """Forget a group; what it contained belongs to no group."""
        if self.tree.groups.pop(name, None) is not None:
            self._regroup()

    def _regroup(self) -> None:
        for account in self._accounts.values():
            account.groups = NO_GROUPS
            account.known.clear()
        self.tree.rebuild()
        for account in self._accounts.values():
            account.groups = self.tree.above(account.quota)
        self._sums.recount(self._accounts.values(), self.tree)
        self._sum_min()
        self.version += 1
        self.quotas_version += 1

    def groups_above(self, namespace: str) -> Ancestors:
        """The groups above the quota of a namespace, the nearest first."""
        return self._accounts.get(namespace, NO_ACCOUNT).groups

    def quota_of(self, namespace: str) -> ElasticQuota | None:
        """The quota that binds in the namespace, or None."""
        return self._accounts.get(namespace, NO_ACCOUNT).quota

    def shadowed(self, namespace: str) -> list[ElasticQuota]:
        """Quotas of the namespace that do not bind because an older one does."""
        return self._accounts.get(namespace, NO_ACCOUNT).quotas[1:]

    def quotas(self) -> Iterator[ElasticQuota]:
        """All binding quotas, in the order in which their namespaces became known."""
        return (account.quota for account in self._accounts.values() if account.quota is not None)

    def known(self, quota: ElasticQuota) -> dict[tuple[str, bool], dict[str, int]]:
        """A cache for values derived from a quota and its use; emptied when the use or any quota changes.

        Kept for binding quotas only.
        """
        account = self._accounts.get(quota.namespace)
        return account.known if account is not None and account.quota is quota else {}

    # Charges

    def charge(self, namespace: str, uid: str, requests: ResourceList, *, placed: bool = True) -> None:
        """Count a pod. `requests` are its effective requests; raises LedgerError if it is charged already.

        `placed`: it has a node. A pod without a node counts too, but cannot be evicted.
        """
        account = self._accounts.get(namespace)
        if account is None:
            account = self._accounts[namespace] = Account(namespace)
        if uid in account.charges:
            raise LedgerError(namespace, uid, "is charged already")
        account.charges[uid] = requests
        if placed:
            self._move(account, requests, +1)
        else:
            self._move_unplaced(account, uid, +1)

    def charge_all(self, namespace: str, charges: Mapping[str, ResourceList]) -> None:
        """Count pods that have a node, by uid; raises LedgerError if one is charged already."""
        account = self._accounts.setdefault(namespace, Account(namespace))
        for uid in charges.keys() & account.charges.keys():
            raise LedgerError(namespace, uid, "is charged already")
        account.charges.update(charges)
        # Pods of one template hold the same object.
        alike = Counter(map(id, charges.values()))
        amounts: dict[str, int] = {}
        for requests in {id(requests): requests for requests in charges.values()}.values():
            for name, value in requests.items():
                if value and name != PODS:
                    amounts[name] = amounts.get(name, 0) + value * alike[id(requests)]
        amounts[PODS] = len(charges)
        self._sums.count(account, amounts, -1)
        shift(account.used, amounts, +1)
        self._sums.count(account, amounts, +1)
        self._changed(account)

    def refund(self, namespace: str, uid: str) -> None:
        """Give a pod's charge back; raises LedgerError if it was never charged."""
        account = self._accounts.get(namespace)
        if account is None or uid not in account.charges:
            raise LedgerError(namespace, uid, "is not charged")
        if uid in account.unplaced_uids:
            self._move_unplaced(account, uid, -1)
            del account.charges[uid]
            return
        self._leave(account, uid, -1)
        self._strand(account, uid, -1)
        self._move(account, account.charges.pop(uid), -1)

    def mark_leaving(self, namespace: str, uid: str) -> None:
        """Mark a charged pod that terminates, or whose eviction is decided. It counts until it is gone.

        Idempotent; does nothing for a pod without a node."""
        account = self._accounts.get(namespace)
        if account is not None and uid in account.charges:
            self._strand(account, uid, -1)
            self._leave(account, uid, +1)

    def mark_staying(self, namespace: str, uid: str) -> None:
        """Undo `mark_leaving` for a pod that was not evicted. Idempotent."""
        account = self._accounts.get(namespace)
        if account is not None and uid in account.charges:
            self._leave(account, uid, -1)

    def _leave(self, account: Account, uid: str, sign: int) -> None:
        if (uid in account.leaving_uids) == (sign > 0) or uid in account.unplaced_uids:
            return
        self._mark(account, uid, account.leaving_uids, account.leaving, sign)

    def mark_stranded(self, namespace: str, uid: str, *, stranded: bool) -> None:
        """Say whether the node of a charged pod is lost, so that no eviction gives its charge back.

        Idempotent; does nothing for a pod without a node, or one that is on its way out."""
        account = self._accounts.get(namespace)
        if account is not None and uid in account.charges:
            self._strand(account, uid, +1 if stranded else -1)

    def _strand(self, account: Account, uid: str, sign: int) -> None:
        marked_otherwise = uid in account.leaving_uids or uid in account.unplaced_uids
        if (uid in account.stranded_uids) == (sign > 0) or marked_otherwise:
            return
        self._mark(account, uid, account.stranded_uids, account.fixed, sign)

    def is_stranded(self, namespace: str, uid: str) -> bool:
        """Whether the pod counts, and its node is lost."""
        return uid in self._accounts.get(namespace, NO_ACCOUNT).stranded_uids

    def _mark(self, account: Account, uid: str, marked: set[str], amounts: dict[str, int], sign: int) -> None:
        """Add a charged pod to the marked ones and to their amounts (+1), or take it out (-1)."""
        charge = charged(account.charges[uid])
        self._sums.count(account, charge, -1)
        (marked.add if sign > 0 else marked.discard)(uid)
        shift(amounts, charge, sign)
        self._sums.count(account, charge, +1)
        self._changed(account)

    def is_leaving(self, namespace: str, uid: str) -> bool:
        """Whether the pod counts and is on its way out."""
        return uid in self._accounts.get(namespace, NO_ACCOUNT).leaving_uids

    def leaving(self, namespace: str) -> ResourceList:
        """The part of `used` that belongs to pods on their way out. Read only."""
        return self._accounts.get(namespace, NO_ACCOUNT).leaving

    def _move(self, account: Account, requests: ResourceList, sign: int) -> None:
        if not account.plain:
            amounts = charged(requests)
            self._sums.count(account, amounts, -1)
            shift(account.used, amounts, sign)
            self._sums.count(account, amounts, +1)
        else:
            # The same amounts as `charged`, without a new dict for every pod.
            for name, value in requests.items():
                if value and name != PODS:
                    self._add(account, name, sign * value)
            self._add(account, PODS, sign)
        self._changed(account)

    def _add(self, account: Account, name: str, more: int) -> None:
        """Count more of one resource in a namespace, and under the quota that binds, if any."""
        used = account.used
        before = used.get(name, 0)
        if account.groups and reaches_max(account.groups, name, more):
            self._sums.count(account, (name,), -1)
            used[name] = before + more
            self._sums.count(account, (name,), +1)
            return
        after = used[name] = before + more
        if not account.quotas:
            return
        quota = account.quotas[0]
        limit = quota.max.get(name)
        if limit is not None and (before > limit or after > limit):
            more = min(after, limit) - min(before, limit)
        guarantees = bool(quota.min.get(name))
        self._sums.everybody.add(name, more, guarantees=guarantees)
        for group in account.groups:
            group.sums.add(name, more, guarantees=guarantees)

    def _move_unplaced(self, account: Account, uid: str, sign: int) -> None:
        amounts = charged(account.charges[uid])
        self._sums.count(account, amounts, -1)
        (account.unplaced_uids.add if sign > 0 else account.unplaced_uids.discard)(uid)
        shift(account.fixed, amounts, sign)
        shift(account.used, amounts, sign)
        self._sums.count(account, amounts, +1)
        self._changed(account)

    def is_unplaced(self, namespace: str, uid: str) -> bool:
        """Whether the pod counts without a node."""
        return uid in self._accounts.get(namespace, NO_ACCOUNT).unplaced_uids

    def fixed(self, namespace: str) -> ResourceList:
        """The part of `used` of pods without a node and of stranded pods. Read only."""
        return self._accounts.get(namespace, NO_ACCOUNT).fixed

    def unplaced_pods(self) -> Iterator[tuple[str, str]]:
        """Namespace and uid of the pods that count without a node."""
        return ((name, uid) for name, account in self._accounts.items() for uid in account.unplaced_uids)

    def is_charged(self, namespace: str, uid: str) -> bool:
        """Whether the pod counts in its namespace."""
        return uid in self._accounts.get(namespace, NO_ACCOUNT).charges

    def used(self, namespace: str) -> ResourceList:
        """The use of a namespace by charged pods, per resource. Read only; resources at 0 may be absent."""
        return self._accounts.get(namespace, NO_ACCOUNT).used

    def in_use(
        self, *, after_leaving: bool = False, guaranteed: bool = False, guaranteeing: bool = False
    ) -> ResourceList:
        """The use of all quotas together, each quota and each group at most its max. Read only.

        With `after_leaving`, pods on their way out do not count. With `guaranteed` (for a pod that stays
        within its min), pods without a node and stranded pods count only up to the min of their quota: they
        cannot be evicted, so they must not keep another quota from its min. With `guaranteeing`, of each
        resource only the use of quotas that guarantee some of it.
        """
        part = 2 * guaranteed + after_leaving
        total: ResourceList = self.total_used
        if part:
            total = less(total, (self.total_leaving, self.total_fixed, self.total_both)[part - 1])
        if not guaranteeing:
            return total
        others = self.unguaranteed[0]
        return less(total, less(others, self.unguaranteed[part]) if part else others)

    def frees(
        self,
        ending: Mapping[str, ResourceList],
        *,
        after_leaving: bool = False,
        guaranteed: bool = False,
    ) -> dict[str, int]:
        """By how much `in_use` falls when pods with nodes that use `ending`, by namespace, end together."""
        found: dict[str, int] = {}
        inside: dict[str, dict[str, int]] = {}
        for namespace, amounts in ending.items():
            account = self._accounts.get(namespace, NO_ACCOUNT)
            less_used = found if not account.groups else inside.setdefault(account.groups[0].name, {})
            shift(less_used, account.frees(amounts, after_leaving=after_leaving, guaranteed=guaranteed))
        for group in self.tree.lowest_first() if inside else ():
            above = found if group.parent is None else inside.setdefault(group.parent.name, {})
            for name, value in inside.get(group.name, {}).items():
                left = group.above_max(name, after_leaving=after_leaving, guaranteed=guaranteed)
                above[name] = above.get(name, 0) + max(0, value - left)
        return found

    def charges(self, namespace: str) -> dict[str, ResourceList]:
        """The charged pods of a namespace by uid. Read only."""
        return self._accounts.get(namespace, NO_ACCOUNT).charges

    def status_used(self, quota: ElasticQuota) -> dict[str, int]:
        """`status.used` of a quota (docs/quota.md#status): each resource in min or max, with zeros."""
        used = self.used(quota.namespace)
        return {name: used.get(name, 0) for name in sorted({*quota.min, *quota.max})}

    def check(self) -> list[str]:
        """A sentence for each broken invariant (sums equal their parts); empty if all hold."""
        problems: list[str] = []
        fresh = QuotaLedger()
        for group in self.tree.groups.values():
            fresh.put_group(group)
        for namespace, account in self._accounts.items():
            for quota in account.quotas:
                fresh.put_quota(quota)
            for uid, requests in account.charges.items():
                fresh.charge(namespace, uid, requests, placed=uid not in account.unplaced_uids)
            for uid in account.leaving_uids:
                fresh.mark_leaving(namespace, uid)
            for uid in account.stranded_uids:
                fresh.mark_stranded(namespace, uid, stranded=True)
            again = fresh._accounts.get(namespace, NO_ACCOUNT)
            for name in ("used", "leaving", "fixed"):
                known, right = getattr(account, name), getattr(again, name)
                if not _equal(known, right):
                    problems.append(f"{name} of {namespace} is {known}, its pods sum to {right}")
        for name in ("total_used", "total_leaving", "total_fixed", "total_both", "total_min"):
            known, right = getattr(self, name), getattr(fresh, name)
            if not _equal(known, right) or (name == "total_min" and known != right):
                problems.append(f"{name.replace('_', ' ')} is {known}, the quotas sum to {right}")
        for known, right in zip(self.unguaranteed, fresh.unguaranteed, strict=True):
            if not _equal(known, right):
                problems.append(f"unguaranteed is {known}, the quotas sum to {right}")
        return [*problems, *self.tree.differences(fresh.tree)]


def shift(totals: dict[str, int], amounts: ResourceList, sign: int = 1) -> None:
    """Add amounts to totals in place, or take them away with a sign of -1."""
    for name, value in amounts.items():
        totals[name] = totals.get(name, 0) + sign * value


def plus(left: ResourceList, right: ResourceList) -> dict[str, int]:
    """The sum of two lists."""
    total = dict(left)
    shift(total, right)
    return total


def less(left: ResourceList, right: ResourceList) -> ResourceList:
    """The amounts of `left` without those of `right`, of the resources in `left`."""
    return {name: value - right.get(name, 0) for name, value in left.items()} if right else left


def _decides_alike(one: ElasticQuota | None, other: ElasticQuota | None) -> bool:
    if one is None or other is None:
        return one is other
    rules = (one.min, one.max, one.sharing, one.group)
    return rules == (other.min, other.max, other.sharing, other.group)


def _equal(left: ResourceList, right: ResourceList) -> bool:
    return all(left.get(name, 0) == right.get(name, 0) for name in {*left, *right})
