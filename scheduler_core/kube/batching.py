"""Delay before the next look at a queue, for items that arrive one by one.

A thread that wakes up for every single item spends more time on waking up than on the item. The caller uses
the delay only while the load is high.
"""

from __future__ import annotations

from typing import Final

SHORT_SECONDS: Final = 0.005
LONG_SECONDS: Final = 0.025
# From 800 items a second on the delay is long; below 400 items a second it is short again.
_MANY: Final = 4
_FEW: Final = 10


class BatchDelay:
    """Computes the time until the next look from the number of items that the last look found."""

    def __init__(self) -> None:
        self._long = False

    def after(self, found: int) -> float:
        """Seconds to wait after a look that found so many items."""
        self._long = found >= (_FEW if self._long else _MANY)
        return LONG_SECONDS if self._long else SHORT_SECONDS
