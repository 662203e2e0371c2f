"""Active units in the order in which they are tried.

`ActiveQueue` goes by sort keys alone. `FairActiveQueue` goes by fair places first, which change with the use
of quotas: of each namespace only the first unit can be next, so only the places of these are compared, and
only those that may have changed are computed again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final, Protocol

from scheduler_core.engine.queue.fair_places import FairPlaces
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.quota.fair_order import FairPlace

# (sort key, number of the entry, key of the unit): unique; of equal sort keys the older entry goes first.
Entry = tuple[tuple[Any, ...], int, str]

# The heap is merged into the sorted entries once it has a quarter of their number.
_SHARE: Final = 4
# Old places are dropped once there are twice as many places as lanes, plus this.
_FEW: Final = 64


class ActiveQueue:
    """Priority queue of active units, fast where many pushes precede many pops.

    Most entries are in a sorted list, the next one last; later entries are in a heap beside it.
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

    def first(self) -> Entry | None:
        """The first entry, None if there is none."""
        late, ordered = self._late, self._sorted
        if late and (not ordered or late[0] < ordered[-1]):
            return late[0]
        return ordered[-1] if ordered else None

    def pop(self) -> Entry | None:
        """Remove and return the first entry, None if there is none."""
        late, ordered = self._late, self._sorted
        if late and len(late) * _SHARE > len(ordered):
            ordered += late
            ordered.sort(reverse=True)
            late.clear()
        if late and (not ordered or late[0] < ordered[-1]):
            return heapq.heappop(late)
        return ordered.pop() if ordered else None


class UnitsInOrder(Protocol):
    """A priority queue of entries."""

    def __len__(self) -> int:
        """The number of entries; those of units that left count until they would come first."""

    def push(self, entry: Entry) -> None:
        """Add an entry."""

    def pop(self) -> Entry | None:
        """Remove and return the first entry, None if there is none."""


class FairActiveQueue:
    """Priority queue of active units by fair place, then by sort key; `find` gives a unit by its key."""

    __slots__ = ("_count", "_find", "_first", "_lanes", "_order", "_places", "_unsure")

    def __init__(self, places: FairPlaces, find: Callable[[str], QueuedUnit | None]) -> None:
        self._places = places
        self._find = find
        self._lanes: dict[str, ActiveQueue] = {}
        # The first units of all lanes; valid are those that `_first` names, by namespace.
        self._order: list[tuple[FairPlace, Entry, str]] = []
        self._first: dict[str, tuple[FairPlace, Entry, str]] = {}
        # Lanes whose first unit, or its place, may be another one.
        self._unsure: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, entry: Entry) -> None:
        """Add an entry of a known unit."""
        unit = self._find(entry[2])
        namespace = unit.namespace if unit is not None else ""
        self._lanes.setdefault(namespace, ActiveQueue()).push(entry)
        self._count += 1
        first = self._first.get(namespace)
        if first is None or entry < first[1]:
            self._unsure.add(namespace)

    def pop(self) -> Entry | None:
        """Remove and return the first entry of a unit that is still active, None if there is none."""
        unsure, first = self._unsure, self._first
        self._places.changed(self._lanes, unsure)
        for namespace in unsure:
            self._place(namespace)
        unsure.clear()
        while self._order:
            found = heapq.heappop(self._order)
            namespace = found[2]
            if first.get(namespace) is found:
                del first[namespace]
                self._count -= 1
                unsure.add(namespace)
                return self._lanes[namespace].pop()
        return None

    def _place(self, namespace: str) -> None:
        """Find the first unit of a lane and its place."""
        lane = self._lanes[namespace]
        while (entry := lane.first()) is not None:
            unit = self._find(entry[2])
            if unit is not None and unit.entry == entry[1]:
                found = (self._places.within(namespace, unit), entry, namespace)
                if found != self._first.get(namespace):
                    self._first[namespace] = found
                    heapq.heappush(self._order, found)
                    self._forget_old_places()
                return
            lane.pop()
            self._count -= 1
        del self._lanes[namespace]
        self._first.pop(namespace, None)

    def _forget_old_places(self) -> None:
        if len(self._order) > 2 * len(self._first) + _FEW:
            self._order = list(self._first.values())
            heapq.heapify(self._order)
