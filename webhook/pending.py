"""What was admitted a moment ago and is not in the caches yet.

Admission comes before storage: two requests that race are both judged by what was stored before either. So
each admitted quota is remembered until the watch shows it (or something newer in its place), or until its
time is over because the write failed after all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from scheduler_core.kube.reading import is_older
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.resource_quota import ResourceQuota

# Longer than an API server takes from admission to storage and watch; a write that failed blocks no longer.
LIFETIME: Final = 10.0

Q = TypeVar("Q", ElasticQuota, ResourceQuota)


@dataclass(frozen=True)
class _Admitted(Generic[Q]):
    quota: Q
    base: str
    until: float


class Pending(Generic[Q]):
    """Admitted quotas of one kind. Not thread-safe: the cache's lock guards it."""

    def __init__(self, lifetime: float = LIFETIME) -> None:
        self._lifetime = lifetime
        self._entries: list[_Admitted[Q]] = []

    def add(self, quota: Q, base: str, now: float) -> None:
        """Remember an admitted quota; `base` is the resourceVersion it replaces, empty for a new one."""
        self._entries = [entry for entry in self._entries if entry.until > now]
        self._entries.append(_Admitted(quota, base, now + self._lifetime))

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

    def quotas(self, now: float) -> list[Q]:
        """All that is still on its way, oldest first."""
        return [entry.quota for entry in self._entries if entry.until > now]
