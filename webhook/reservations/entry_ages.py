"""The ages of ledger entries, and floods of entries without objects.

The age counts from the moment that this replica first saw the entry; clocks of other machines do not matter.
When an announced entry is established, its review is answered only then, so its age starts again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from scheduler_core.model.quotas.reservation_ledger import Key, ReservationLedger, entries

# This many entries without an object for LONG_SECONDS are a flood: forged reviews, or a fault.
MANY: Final = 32
LONG_SECONDS: Final = 0.5
# How long a flood lasts after it was last detected.
FLOOD_SECONDS: Final = 10.0


class _FirstSeen(NamedTuple):
    since: float
    announced: bool


class EntryAges:
    """The ages of ledger entries by namespace. `observe` and `forget` are called under one lock."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, dict[Key, _FirstSeen]] = {}
        self._flooded_until: dict[str, float] = {}

    def observe(self, ledger: ReservationLedger) -> None:
        """Take the entries of a ledger that is newer than the last one of its namespace."""
        before, now = self._seen.get(ledger.namespace, {}), self._monotonic()
        seen = {}
        for key, announced in entries(ledger):
            known = before.get(key)
            seen[key] = (
                known if known is not None and known.announced == announced else _FirstSeen(now, announced)
            )
        if seen:
            self._seen[ledger.namespace] = seen
        else:
            self._seen.pop(ledger.namespace, None)

    def forget(self, namespace: str) -> None:
        """Forget the entries of a namespace whose ledger was deleted."""
        self._seen.pop(namespace, None)

    def older(self, namespace: str, keys: Iterable[Key], seconds: float, announced: float) -> set[Key]:
        """The `keys` that are at least `seconds` old, or `announced` seconds if they are announced."""
        seen, now = self._seen.get(namespace, {}), self._monotonic()
        found = set()
        for key in keys:
            first = seen.get(key)
            if first is not None and now - first.since >= (announced if first.announced else seconds):
                found.add(key)
        return found

    def oldest_first(self, namespace: str, keys: Iterable[Key]) -> list[Key]:
        """The keys by age, oldest first; unknown ones come last."""
        seen, never = self._seen.get(namespace, {}), _FirstSeen(float("inf"), announced=False)
        return sorted(keys, key=lambda key: seen.get(key, never).since)

    def observe_provisional(self, namespace: str, provisional: Collection[Key]) -> None:
        """Detect a flood from the entries that are provisional now."""
        if len(provisional) < MANY:
            return
        if len(self.older(namespace, provisional, LONG_SECONDS, LONG_SECONDS)) >= MANY:
            self.flood(namespace)

    def flood(self, namespace: str) -> None:
        """Start a flood, or extend it."""
        now = self._monotonic()
        self._flooded_until = {name: end for name, end in self._flooded_until.items() if end > now}
        self._flooded_until[namespace] = now + FLOOD_SECONDS

    def flooded(self, namespace: str) -> bool:
        """Whether a flood goes on."""
        until = self._flooded_until.get(namespace)
        return until is not None and until > self._monotonic()
