"""The values that the objects of one kind keep in memory, counted by namespace.

The limits of one object leave room for many objects at their limit. Of those with many values, a namespace
has room for so many together; objects with few values are not counted, as their number costs more than their
values.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec

from scheduler_core.errors import TooLarge

MANY_VALUES: Final = 64
# 250 different pods that name a thousand values each: about 100 MB at worst.
MOST_POD_VALUES: Final = 250_000
# Budgets and claims select by one or two labels.
MOST_BUDGET_VALUES: Final = 50_000
MOST_CLAIM_VALUES: Final = 50_000
# Terms of affinity of a namespace's pods that concern pods of others: all are looked at in decisions about
# these, and the pods that they select are counted for each.
MOST_FOREIGN_TERMS: Final = 1_000


class _Share(msgspec.Struct):
    """Values that objects of equal content have in common, and the uids of these objects."""

    count: int
    users: set[str]


class KeptValues:
    """For one thread. Objects with the same `mark` share their values, which count once.

    Those with at most `few` values are not counted. `what` names the values in messages.
    """

    def __init__(self, most: int, few: int = MANY_VALUES, what: str = "values") -> None:
        self._most = most
        self._few = few
        self._what = what
        self._of: dict[str, tuple[str, Hashable]] = {}
        self._shares: dict[tuple[str, Hashable], _Share] = {}
        self._sums: dict[str, int] = {}

    def take(self, uid: str, namespace: str, mark: Hashable, count: int) -> None:
        """The object has `count` values. Raises TooLarge, and forgets it, where its namespace has no room."""
        key = namespace, mark
        known = self._of.get(uid)
        if known is not None:
            if known == key and self._shares[key].count == count:
                return
            self.forget(uid)
        if count <= self._few:
            return
        share = self._shares.get(key)
        if share is None:
            total = self._sums.get(namespace, 0) + count
            if total > self._most:
                problem = f"has {count} {self._what}, with which namespace {namespace} would have {total}"
                raise TooLarge("spec", f"{problem}; at most {self._most} are read")
            self._sums[namespace] = total
            share = self._shares[key] = _Share(count, set())
        share.users.add(uid)
        self._of[uid] = key

    def forget(self, uid: str) -> None:
        """The object is gone, or not kept."""
        key = self._of.pop(uid, None)
        if key is None:
            return
        share = self._shares[key]
        share.users.discard(uid)
        if not share.users:
            del self._shares[key]
            self._sums[key[0]] -= share.count
            if not self._sums[key[0]]:
                del self._sums[key[0]]
