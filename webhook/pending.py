"""What was admitted a moment ago and is not in the caches yet.

Admission comes before storage: two requests that race are both judged by what was stored before either. So
each admitted quota is remembered until the watch shows it (or something newer in its place), or until its
time is over because the write failed after all.

Whoever reaches the webhook can send a review of a quota that nobody creates. So nobody is refused because of
what is only remembered here: it has `GRACE` to appear, and what no list shows then is forgotten (`drop`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Final, Generic, TypeVar

from scheduler_core.kube.reading import is_older
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.resource_quota import ResourceQuota

# Longer than an API server takes from admission to storage and watch; a write that failed blocks no longer.
LIFETIME: Final = 10.0
# Within which a quota appears after its admission, when somebody else needs the room.
GRACE: Final = 1.0
# More are not remembered; the oldest are forgotten first.
MOST: Final = 256

Q = TypeVar("Q", ElasticQuota, ResourceQuota)


@dataclass(frozen=True)
class _Admitted(Generic[Q]):
    quota: Q
    base: str
    number: int
    since: float


class Pending(Generic[Q]):
    """Admitted quotas of one kind. Not thread-safe: the cache's lock guards it."""

    def __init__(self, lifetime: float = LIFETIME) -> None:
        self._lifetime = lifetime
        self._entries: list[_Admitted[Q]] = []

    def add(self, quota: Q, base: str, now: float, number: int = 0) -> None:
        """Remember an admitted quota; `base` is the resourceVersion it replaces, empty for a new one.

        `number` grows from one to the next.
        """
        self._entries = self._alive(now)[1 - MOST :]
        self._entries.append(_Admitted(quota, base, number, now))

    def withdraw(self, number: int) -> None:
        """Forget one."""
        self._entries = [entry for entry in self._entries if entry.number != number]

    def renew(self, number: int, now: float) -> None:
        """One that waited is answered only now: it has its time from here on."""
        self._entries = [
            replace(entry, since=now) if entry.number == number else entry for entry in self._entries
        ]

    def drop(self, now: float, namespace: str = "") -> None:
        """A list, of `namespace` if given, did not settle them: who had the time to appear is nothing."""
        self._entries = [
            entry
            for entry in self._entries
            if now - entry.since < GRACE or (namespace and entry.quota.namespace != namespace)
        ]

    def open(self, before: int, now: float) -> bool:
        """Whether any that came before `before` may still appear."""
        return any(entry.number < before and now - entry.since < GRACE for entry in self._entries)

    def seen(self, namespace: str, name: str, version: str) -> None:
        """The watch shows this object: whatever was admitted on top of an older version is settled.

        A new quota whose name the server still had to generate is settled by any quota of its namespace.
        """
        self._entries = [
            entry
            for entry in self._entries
            if entry.quota.namespace != namespace
            or entry.quota.name not in ("", name)
            or (entry.base and not is_older(entry.base, version))
        ]

    def gone(self, namespace: str, name: str) -> None:
        """The watch shows a deletion: changes of that object are void; a new one may be on its way."""
        self._entries = [
            entry
            for entry in self._entries
            if not entry.base or (entry.quota.namespace, entry.quota.name) != (namespace, name)
        ]

    def quotas(self, now: float, before: float = inf) -> list[Q]:
        """All that is still on its way, oldest first; of those only what came before `before`."""
        return [entry.quota for entry in self._alive(now) if entry.number < before]

    def _alive(self, now: float) -> list[_Admitted[Q]]:
        return [entry for entry in self._entries if entry.since + self._lifetime > now]
