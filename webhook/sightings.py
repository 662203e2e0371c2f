"""Since when this replica has seen the entries of ledgers, and where they come in masses for nothing.

An entry whose object does not appear is worth less the longer it is there. The time is this replica's own,
from its first sight on. An entry that was announced and then established was answered only now: its time
begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from scheduler_core.model.reservation_ledger import ReservationLedger
from scheduler_core.quota.provisional import Key, entries

# So many entries for which nothing appeared for so long are a flood of forged reviews, or something broken.
MANY: Final = 32
LONG_SECONDS: Final = 0.5
# A flood is taken to go on for so long after it was last noticed.
FLOOD_SECONDS: Final = 10.0


class _Sight(NamedTuple):
    since: float
    announced: bool


class Sightings:
    """Entries of ledgers by namespace, oldest first. `saw` is called under one lock."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, dict[Key, _Sight]] = {}
        self._flooded_until: dict[str, float] = {}

    def saw(self, ledger: ReservationLedger) -> None:
        """Take note of a ledger that is newer than the last one of its namespace."""
        before, now = self._seen.get(ledger.namespace, {}), self._monotonic()
        seen = {}
        for key, announced in entries(ledger):
            known = before.get(key)
            seen[key] = (
                known if known is not None and known.announced == announced else _Sight(now, announced)
            )
        if seen:
            self._seen[ledger.namespace] = seen
        else:
            self._seen.pop(ledger.namespace, None)

    def gone(self, namespace: str) -> None:
        """The namespace has no ledger any more."""
        self._seen.pop(namespace, None)

    def older(self, namespace: str, keys: Iterable[Key], seconds: float, announced: float) -> set[Key]:
        """Those of `keys` that were seen for so long; `announced` is the time for entries that still wait."""
        seen, now = self._seen.get(namespace, {}), self._monotonic()
        found = set()
        for key in keys:
            sight = seen.get(key)
            if sight is not None and now - sight.since >= (announced if sight.announced else seconds):
                found.add(key)
        return found

    def oldest_first(self, namespace: str, keys: Iterable[Key]) -> list[Key]:
        """The keys by their first sight; those never seen come last."""
        seen, never = self._seen.get(namespace, {}), _Sight(float("inf"), announced=False)
        return sorted(keys, key=lambda key: seen.get(key, never).since)

    def note(self, namespace: str, doubtful: Collection[Key]) -> None:
        """These are the entries that nothing confirms now."""
        if len(doubtful) < MANY:
            return
        if len(self.older(namespace, doubtful, LONG_SECONDS, LONG_SECONDS)) >= MANY:
            self.flood(namespace)

    def flood(self, namespace: str) -> None:
        """Entries for nothing come in masses now."""
        now = self._monotonic()
        self._flooded_until = {name: end for name, end in self._flooded_until.items() if end > now}
        self._flooded_until[namespace] = now + FLOOD_SECONDS

    def flooded(self, namespace: str) -> bool:
        """Whether entries for nothing came in masses a moment ago."""
        until = self._flooded_until.get(namespace)
        return until is not None and until > self._monotonic()
