"""Selects the node with the highest score; ties are broken by a rotation seeded from the pod's uid."""

from __future__ import annotations

import zlib
from bisect import bisect_left

import numpy as np

from scheduler_core.arrays.types import Int64


def rotation(uid: str, size: int) -> int:
    """The slot at which the search for the best node starts: fixed per pod, spread over the nodes."""
    return zlib.crc32(uid.encode()) % size if size else 0


def best_slot(total: Int64, start: int) -> int:
    """First slot with the highest total at or after `start` (cyclic), or -1 if no node is feasible.

    `total` is int64 [N], negative where infeasible.
    """
    if not len(total):
        return -1
    first = start + int(total[start:].argmax()) if start < len(total) else 0
    if start:
        second = int(total[:start].argmax())
        if total[second] > total[first]:
            first = second
    return first if total[first] >= 0 else -1


class BestSlots:
    """The slots with the highest total, updated while single totals change, without a scan of all slots.

    `total` is int64 [N], negative where infeasible; after any other change of it call `forget`.
    """

    __slots__ = ("_cells", "_slots", "_top", "_total")

    def __init__(self, total: Int64) -> None:
        self._total = total
        self._cells = total.data
        self._top = -1
        # Ascending; None until computed.
        self._slots: list[int] | None = None

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes, without the totals."""
        return 36 * len(self._slots or ())

    def forget(self) -> None:
        """Drop the slots after a change of totals that did not go through `set`."""
        self._slots = None

    def set(self, slot: int, value: int) -> None:
        """Set the total of one slot."""
        self._cells[slot] = value
        slots = self._slots
        if slots is None:
            return
        place = bisect_left(slots, slot)
        leads = place < len(slots) and slots[place] == slot
        if value > self._top or (leads and value < self._top and len(slots) == 1):
            self._slots = None
        elif leads and value < self._top:
            del slots[place]
        elif not leads and value == self._top:
            slots.insert(place, slot)

    def best(self, start: int) -> int:
        """As `best_slot(total, start)`."""
        slots = self._slots
        if slots is None:
            self._top = int(self._total.max(initial=-1))
            slots = self._slots = np.flatnonzero(self._total == self._top).tolist()
        if self._top < 0:
            return -1
        place = bisect_left(slots, start)
        return slots[place] if place < len(slots) else slots[0]
