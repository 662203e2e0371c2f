"""The groups of a ledger: their use, what they guarantee and keep back (docs/quota-trees.md#rules).

Use is counted at every charge in all groups above a quota, so that a check costs a step per level. Without
groups nothing is counted and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.tree import ROOT, GroupAccount, parents_of

Ancestors = tuple[GroupAccount, ...]
NO_GROUPS: Ancestors = ()


class GroupAccounts:
    """All groups by name. `roots` are those without a group above, `keeping` those that do not lend all."""

    def __init__(self) -> None:
        self.groups: dict[str, QuotaGroup] = {}
        self.accounts: dict[str, GroupAccount] = {}
        self.roots: list[GroupAccount] = []
        self.keeping: list[GroupAccount] = []

    def __bool__(self) -> bool:
        return bool(self.groups)

    def rebuild(self) -> None:
        """Build the tree anew, without use and without what it guarantees: a group came, changed or went."""
        parents = parents_of(self.groups)
        self.accounts = {name: GroupAccount(self.groups[name]) for name in sorted(self.groups)}
        self.roots = []
        for name, account in self.accounts.items():
            account.parent = self.accounts.get(parents[name])
            (self.roots if account.parent is None else account.parent.children).append(account)

    def above(self, quota: ElasticQuota | None) -> Ancestors:
        """The groups above a quota, the nearest first; none for a label that names no group."""
        found = self.accounts.get(quota.group) if self.accounts and quota is not None else None
        return tuple(found.way_up()) if found is not None else NO_GROUPS

    def guarantee(self, quotas: Iterable[ElasticQuota]) -> dict[str, int]:
        """Set what every group guarantees, and give the sum of min of the root's children."""
        own: dict[str, list[ResourceList]] = {}
        namespaces: dict[str, set[str]] = {}
        for quota in quotas:
            group = quota.group if quota.group in self.accounts else ROOT
            own.setdefault(group, []).append(quota.min)
            namespaces.setdefault(group, set()).add(quota.namespace)
        for account in self.lowest_first():
            below = [child.min for child in account.children]
            account.guarantee([*own.get(account.name, ()), *below])
            inside = (child.namespaces for child in account.children)
            account.namespaces = frozenset(namespaces.get(account.name, set())).union(*inside)
        self.keeping = [account for account in self.accounts.values() if account.keeps]
        total: dict[str, int] = {}
        for amounts in [*own.get(ROOT, ()), *(account.min for account in self.roots)]:
            for name, value in amounts.items():
                total[name] = total.get(name, 0) + value
        return total

    def lowest_first(self) -> Iterator[GroupAccount]:
        """All groups, each after those below it."""

        def below(account: GroupAccount) -> Iterator[GroupAccount]:
            for child in account.children:
                yield from below(child)
            yield account

        for root in self.roots:
            yield from below(root)

    def differences(self, right: GroupAccounts) -> list[str]:
        """A sentence for each amount that differs from those of a tree that was counted from scratch."""
        problems = []
        for name, account in self.accounts.items():
            other = right.accounts[name]
            if account.min != other.min:
                problems.append(f"min of QuotaGroup {name} is {account.min}, its children need {other.min}")
            pairs = zip(
                (*account.sums.parts, *account.sums.unguaranteed),
                (*other.sums.parts, *other.sums.unguaranteed),
                strict=True,
            )
            for known, counted in pairs:
                if any(known.get(key, 0) != counted.get(key, 0) for key in {*known, *counted}):
                    problems.append(f"use of QuotaGroup {name} is {known}, its quotas sum to {counted}")
        return problems
