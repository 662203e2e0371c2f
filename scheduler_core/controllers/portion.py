"""How much a controller looks at in one go, as the loop has other things to do, and how often it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_AT_ONCE: Final = 200
_FEW: Final = 64


def portion(dirty: set[str], is_due: Callable[[str], bool]) -> list[str]:
    """The first of those that are due, in order, taken out of `dirty`; the others stay for the next time."""
    found = sorted(key for key in dirty if is_due(key))[:MOST_AT_ONCE]
    dirty.difference_update(found)
    return found


class Rests:
    """Objects by key that were written less than so many seconds ago."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[str, float] = {}
        self._swept = _FEW

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._ends)

    def end(self, key: str) -> float:
        """When it may be written again, 0 where nothing is in the way."""
        return self._ends.get(key, 0.0)

    def begin(self, key: str, now: float) -> None:
        """It was written; those of which nothing is to be remembered any more are forgotten."""
        self._ends[key] = now + self._seconds
        if len(self._ends) > 2 * self._swept:
            self._ends = {key: end for key, end in self._ends.items() if end > now}
            self._swept = max(_FEW, len(self._ends))
