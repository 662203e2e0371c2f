"""What quotas add to the sums above them: to those of their groups, and to the sum over all quotas.

A quota adds at most its max, and a group at most its own: what is used beyond counts inside alone. So a
change of a quota changes what the groups above it add, each to the next (docs/quota-trees.md#use-above-max).
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_core.quota.account import Account
from scheduler_core.quota.group_accounts import Ancestors, GroupAccounts
from scheduler_core.quota.use_sums import UseSums


class SumsAbove:
    """`everybody` is the sum over all quotas; those of groups are in their accounts."""

    def __init__(self) -> None:
        self.everybody = UseSums()

    def count(self, account: Account, names: Iterable[str], sign: int) -> None:
        """Take what a quota, and with it its groups, add of some resources in (+1), or out (-1) before it
        changes.
        """
        quota = account.quota
        if quota is None:
            return
        nearest = account.groups[0].sums if account.groups else self.everybody
        for name in names:
            if sign < 0:
                self._count_groups(account.groups, name, sign)
            share, unguaranteed = account.shares(quota, name)
            nearest.count(name, share, sign, unguaranteed)
            if sign > 0:
                self._count_groups(account.groups, name, sign)

    def leave(self, account: Account) -> None:
        """Take a quota out of all sums; its groups stay."""
        if account.quota is not None:
            self.count(account, account.used, -1)
            for name in account.used:
                self._count_groups(account.groups, name, +1)

    def join(self, account: Account) -> None:
        """Take a quota into all sums, which do not have it."""
        if account.quota is not None:
            for name in account.used:
                self._count_groups(account.groups, name, -1)
            self.count(account, account.used, +1)

    def recount(self, accounts: Iterable[Account], tree: GroupAccounts) -> None:
        """Fill the sums anew; those of the groups are empty."""
        self.everybody.clear()
        for account in accounts:
            if (quota := account.quota) is not None:
                nearest = account.groups[0].sums if account.groups else self.everybody
                for name in account.used:
                    share, unguaranteed = account.shares(quota, name)
                    nearest.count(name, share, +1, unguaranteed)
        for group in tree.lowest_first():
            for name in group.sums.parts[0]:
                self._count_groups((group,), name, +1)

    def _count_groups(self, groups: Ancestors, name: str, sign: int) -> None:
        """Take what groups, the nearest first, add to the sums above them in (+1), or out (-1)."""
        for group in groups if sign > 0 else reversed(groups):
            sums = group.parent.sums if group.parent is not None else self.everybody
            share, unguaranteed = group.shares(name)
            sums.count(name, share, sign, unguaranteed)


def reaches_max(groups: Ancestors, name: str, more: int) -> bool:
    """Whether any of these groups is above its max of a resource, or might be with more use."""
    for group in groups:
        limit = group.group.max.get(name)
        if limit is not None and group.sums.parts[0].get(name, 0) + max(0, more) > limit:
            return True
    return False
