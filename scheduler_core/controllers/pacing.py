"""Limits of a controller: how many objects it reviews per pass, and how often it writes each object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

MOST_AT_ONCE: Final = 200
_FEW: Final = 64


def _at_once(key: str) -> float:
    return 0.0


class Portions:
    """Changed objects, by key, of which a controller reviews a portion per pass.

    `end` says when an object may be reviewed, in seconds; without it all may be at any time.
    """

    def __init__(self, end: Callable[[str], float] = _at_once) -> None:
        self._end = end
        self._taken_at = 0.0
        # The namespace that the last portion ended with.
        self._last = ""

    def take(self, dirty: set[str], now: float) -> list[str]:
        """Remove the due keys from `dirty`, at most MOST_AT_ONCE in order, and return them.

        Where there are more, namespaces take turns: one that has many keeps no others waiting, and neither do
        many, as the next portion goes on behind those of the last one.
        """
        found = sorted(key for key in dirty if self._end(key) <= now)
        if len(found) > MOST_AT_ONCE:
            found = _in_turn(found, self._last)[:MOST_AT_ONCE]
            self._last = _namespace(found[-1])
        if found:
            self._taken_at = now
            dirty.difference_update(found)
        return found

    def next_time(self, dirty: set[str]) -> float | None:
        """When a key of `dirty` is due, or None. Of keys that are due already, it is the time of the last
        portion: so it moves as long as portions are taken.
        """
        earliest = min(map(self._end, dirty), default=None)
        return max(earliest, self._taken_at) if earliest is not None else None


def _in_turn(keys: Iterable[str], after: str) -> list[str]:
    """The first key of each namespace, then the second of each, and so on; each time the namespaces behind
    `after` come first. Keys begin with the namespace.
    """
    places: Counter[str] = Counter()
    placed = []
    for key in keys:
        namespace = _namespace(key)
        placed.append((places[namespace], namespace <= after, key))
        places[namespace] += 1
    return [key for _, _, key in sorted(placed)]


def _namespace(key: str) -> str:
    return key.partition("/")[0]


class RecentWrites:
    """The objects, by key, that were written less than `seconds` ago."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[str, float] = {}
        self._swept = _FEW

    def end(self, key: str) -> float:
        """When an object may be written again; 0 if it may be now."""
        return self._ends.get(key, 0.0)

    def begin(self, key: str, now: float) -> None:
        """Record a write; expired entries are dropped."""
        self._ends[key] = now + self._seconds
        if len(self._ends) > 2 * self._swept:
            self._ends = {key: end for key, end in self._ends.items() if end > now}
            self._swept = max(_FEW, len(self._ends))
