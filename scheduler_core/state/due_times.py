"""When each of many keys is due. What is taken is gone, so no moment of the past stays behind.

Whoever has work at some time keeps it here, takes what is due first of all when its turn comes, and puts
back what is due again. So the loop, which sleeps until the next moment of all, comes to rest whatever happens
to the objects behind the keys.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

K = TypeVar("K")
_FEW: Final = 64


def earliest(*moments: float | None) -> float | None:
    """The earliest of the moments that are given, or None."""
    return min((moment for moment in moments if moment is not None), default=None)


class DueTimes(Generic[K]):
    """Moments in seconds by key, one each. Each method but `clear` takes a logarithm of their number."""

    def __init__(self) -> None:
        # The moment of a key, and the number of its entry in the heap; other entries are outdated.
        self._moments: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._entries = 0

    def __len__(self) -> int:
        return len(self._moments)

    def __iter__(self) -> Iterator[K]:
        return iter(self._moments)

    def __contains__(self, key: object) -> bool:
        return key in self._moments

    def get(self, key: K) -> float | None:
        """When a key is due; None if it is not."""
        found = self._moments.get(key)
        return found[0] if found is not None else None

    def put(self, key: K, moment: float) -> None:
        """Make a key due at a moment, and no longer at another one."""
        if self.get(key) == moment:
            return
        self._entries += 1
        self._moments[key] = moment, self._entries
        heapq.heappush(self._heap, (moment, self._entries, key))
        if len(self._heap) > 2 * len(self._moments) + _FEW:
            self._heap = [(moment, entry, key) for key, (moment, entry) in self._moments.items()]
            heapq.heapify(self._heap)

    def drop(self, key: K) -> None:
        """Make a key due no longer."""
        self._moments.pop(key, None)

    def clear(self) -> None:
        """Make no key due."""
        self._moments.clear()
        self._heap.clear()

    def take(self, now: float) -> list[K]:
        """Remove the keys that are due, and return them, the earliest first."""
        found: list[K] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            moment, entry, key = heapq.heappop(heap)
            if self._moments.get(key) == (moment, entry):
                del self._moments[key]
                found.append(key)
        return found

    def next_time(self) -> float | None:
        """When the next key is due, or None."""
        while self._heap:
            moment, entry, key = self._heap[0]
            if self._moments.get(key) == (moment, entry):
                return moment
            heapq.heappop(self._heap)
        return None
