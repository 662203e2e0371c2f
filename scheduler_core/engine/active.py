"""Units that wait for their turn, in the order of QueueSort."""

from __future__ import annotations

import heapq
from typing import Any, Final

# Sort key, number of the entry, key of the unit: no two are equal, of equal keys the older one goes first.
Entry = tuple[tuple[Any, ...], int, str]

# A heap that has grown to this part of the sorted entries is sorted in.
_SHARE: Final = 4


class ActiveQueue:
    """A priority queue whose `pop` costs next to nothing where many entries come before many are taken.

    Most entries lie sorted, the next one last; those that came since are in a heap beside them.
    """

    __slots__ = ("_late", "_sorted")

    def __init__(self) -> None:
        self._sorted: list[Entry] = []
        self._late: list[Entry] = []

    def __len__(self) -> int:
        return len(self._sorted) + len(self._late)

    def push(self, entry: Entry) -> None:
        """Add an entry."""
        heapq.heappush(self._late, entry)

    def pop(self) -> Entry:
        """Take the first entry out. Raises IndexError if there is none."""
        late, ordered = self._late, self._sorted
        if late and len(late) * _SHARE > len(ordered):
            ordered += late
            ordered.sort(reverse=True)
            late.clear()
        if late and (not ordered or late[0] < ordered[-1]):
            return heapq.heappop(late)
        return ordered.pop()
