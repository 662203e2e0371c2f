"""Change logs: the nodes that changed since a reader last looked, in time proportional to the changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Int64

KEEP: Final = 65536


class ChangeLog:
    """An append-only list of slots. A reader keeps the `position` up to which it has read, that after the
    newest entry.
    """

    __slots__ = ("_slots", "position")

    def __init__(self) -> None:
        self.position = 0
        self._slots: list[int] = []

    def append(self, slot: int) -> None:
        """Record that a slot changed."""
        if len(self._slots) >= 2 * KEEP:
            del self._slots[:KEEP]
        self._slots.append(slot)
        self.position += 1

    def since(self, position: int) -> list[int] | None:
        """Slots changed from a position on (with repeats), or None if the log no longer reaches back."""
        start = self.position - len(self._slots)
        return self._slots[position - start :] if position >= start else None


def distinct(slots: Iterable[int]) -> Int64:
    """int64 [M]: the slots in ascending order, without repeats.

    `np.unique` does the same and imports a large part of numpy at its first call, which the first pod pays.
    """
    return np.array(sorted(set(slots)), dtype=np.int64)
