"""Counts of holders per key and node slot, for what pods hold besides resources."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np

from scheduler_core.arrays.types import Bool

K = TypeVar("K", bound=Hashable)


class Held(Generic[K]):
    """Key to slot to the number of holders there. Adding and dropping cost the same for any cluster size."""

    def __init__(self) -> None:
        self._slots: dict[K, dict[int, int]] = {}

    def add(self, key: K, slot: int) -> bool:
        """One more holder on a slot; True if it is the first there."""
        counts = self._slots.setdefault(key, {})
        counts[slot] = counts.get(slot, 0) + 1
        return counts[slot] == 1

    def drop(self, key: K, slot: int) -> bool:
        """Remove one holder. Returns whether it was the last there. Raises KeyError if there was none."""
        counts = self._slots[key]
        counts[slot] -= 1
        if counts[slot]:
            return False
        del counts[slot]
        if not counts:
            del self._slots[key]
        return True

    def slots(self, key: K) -> Collection[int]:
        """Slots with at least one holder."""
        return self._slots.get(key, {}).keys()

    def __iter__(self) -> Iterator[K]:
        """Every key that is held somewhere."""
        return iter(self._slots)


def mask(slots: Collection[int], size: int) -> Bool:
    """bool [size]: True at the given slots."""
    out: Bool = np.zeros(size, dtype=np.bool_)  # [size]
    if slots:
        out[np.fromiter(slots, dtype=np.int64, count=len(slots))] = True
    return out
