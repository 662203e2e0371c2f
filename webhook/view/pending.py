"""Provisional quotas: admitted a moment ago, and not visible in the watch yet.

Admission comes before storage: two concurrent requests would both be judged by what was stored before. So
each admitted quota is kept until the watch shows it (or a newer version), or until its time is over because
the write failed. A list that shows it before the watch does makes it certain, but does not end this: another
request may be judged by an older list, or by the watch alone.

A forged review can name a quota that nobody creates. So no quota is refused because of provisional ones only:
they have `GRACE` to appear, and those that no list shows then are dropped (`drop`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Generic, TypeVar

from scheduler_core.kube.watch.reading import is_older
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import ResourceQuota

# Longer than an API server takes from admission to the watch event. A failed write blocks for this time.
LIFETIME: Final = 10.0
# Time for a quota to appear after its admission, if another quota needs its room.
GRACE: Final = 1.0
# The number of quotas kept; the oldest are dropped first.
MOST: Final = 256

Q = TypeVar("Q", ElasticQuota, ResourceQuota)


@dataclass(frozen=True)
class _Admitted(Generic[Q]):
    """`stored`: a list showed `quota`; until then it is what was admitted in the place of version `base`."""

    quota: Q
    base: str
    number: int
    since: float
    stored: bool = False

    def is_settled_by(self, namespace: str, name: str, version: str) -> bool:
        """Whether this version of an object is the result of the write, or newer."""
        quota = self.quota
        if quota.namespace != namespace or quota.name not in ("", name):
            return False
        if self.stored:
            return not is_older(version, quota.resource_version)
        return not self.base or is_older(self.base, version)


class AdmittedQuotas(Generic[Q]):
    """Admitted quotas of one kind. Not thread-safe: the cache's lock guards it."""

    def __init__(self, lifetime: float = LIFETIME) -> None:
        self._lifetime = lifetime
        self._entries: list[_Admitted[Q]] = []

    def add(self, quota: Q, base: str, now: float, number: int = 0) -> None:
        """Add an admitted quota; `base` is the resourceVersion it replaces, empty for a new one.

        Each `number` is greater than the one before.
        """
        self._entries = self._alive(now)[1 - MOST :]
        self._entries.append(_Admitted(quota, base, number, now))

    def withdraw(self, number: int) -> None:
        """Remove a quota."""
        self._entries = [entry for entry in self._entries if entry.number != number]

    def renew(self, number: int, now: float) -> None:
        """Restart the time of a quota that is answered only now."""
        self._entries = [
            replace(entry, since=now) if entry.number == number else entry for entry in self._entries
        ]

    def open(self, before: int, now: float) -> bool:
        """Whether a quota with a number less than `before` may still appear."""
        return any(
            entry.number < before and now - entry.since < GRACE and not entry.stored
            for entry in self._entries
        )

    def seen(self, namespace: str, name: str, version: str) -> None:
        """Settle what was admitted on older versions of an object that the watch shows.

        A new quota whose name the server still had to generate is settled by any quota of its namespace.
        """
        self._entries = [
            entry for entry in self._entries if not entry.is_settled_by(namespace, name, version)
        ]

    def listed(self, quotas: Iterable[Q]) -> None:
        """Take the objects of a list in the place of what was admitted on older versions."""
        for quota in quotas:
            shown = quota.namespace, quota.name, quota.resource_version
            self._entries = [
                replace(entry, quota=quota, stored=True) if entry.is_settled_by(*shown) else entry
                for entry in self._entries
            ]

    def drop(self, quotas: Iterable[Q], version: str, began: float, namespace: str = "") -> None:
        """Drop what a list at `version` (of `namespace`, if given) does not show although it should: what had
        the time to appear before the list `began`, and what an older list has shown.
        """
        keys = {quota.key for quota in quotas}

        def may_be_there(entry: _Admitted[Q]) -> bool:
            if not entry.stored:
                return began - entry.since < GRACE
            return entry.quota.key in keys or is_older(version, entry.quota.resource_version)

        self._entries = [
            entry
            for entry in self._entries
            if (namespace and entry.quota.namespace != namespace) or may_be_there(entry)
        ]

    def gone(self, namespace: str, name: str) -> None:
        """Drop changes of an object that was deleted; a new object of that name may be provisional."""
        self._entries = [
            entry
            for entry in self._entries
            if not entry.base or (entry.quota.namespace, entry.quota.name) != (namespace, name)
        ]

    def quotas(self, now: float, before: float = inf) -> list[Q]:
        """The provisional quotas with a number less than `before`, oldest first."""
        return [entry.quota for entry in self._alive(now) if entry.number < before and not entry.stored]

    def stored(self, now: float) -> list[Q]:
        """The quotas that a list has shown and the watch has not, as listed."""
        return [entry.quota for entry in self._alive(now) if entry.stored]

    def _alive(self, now: float) -> list[_Admitted[Q]]:
        return [entry for entry in self._entries if entry.since + self._lifetime > now]
