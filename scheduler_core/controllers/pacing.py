"""Limits of a controller: how many objects it reviews per pass, and how often it writes each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_AT_ONCE: Final = 200
_FEW: Final = 64


def portion(dirty: set[str], is_due: Callable[[str], bool]) -> list[str]:
    """Remove the due keys from `dirty`, at most MOST_AT_ONCE in order, and return them."""
    found = sorted(key for key in dirty if is_due(key))[:MOST_AT_ONCE]
    dirty.difference_update(found)
    return found


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
