"""The unschedulable units in classes of equivalent units: whatever rejects one unit rejects its whole class.

A hint is asked once per class, and only for classes that the event can concern. An event that may help opens
a class: its representative is the first unit in queue order whose backoff is over, else the unit whose
backoff ends first. If the representative is scheduled the next one follows; if it is rejected again the class
waits for another event.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.queue.unit import QueuedUnit, Traits, WaitingClass
from scheduler_core.engine.queue.waiting_neighbours import WaitingNeighbours
from scheduler_core.engine.queue.waiting_table import WaitingTable
from scheduler_core.framework.queueing.hints import Neighbour

# Old turns are dropped once there are twice as many turns as classes, plus this.
_FEW: Final = 64


class WaitingClasses:
    """All classes in the order of their last attempts, indexed by plugin, namespace, group and neighbours.

    `order` gives the sort key of a unit.
    """

    def __init__(self, table: WaitingTable, order: Any) -> None:
        self.table = table
        self._order = order
        self._classes: OrderedDict[Hashable, WaitingClass] = OrderedDict()
        self._rows: dict[int, WaitingClass] = {}
        # The class of a table row.
        self.at: Callable[[int], WaitingClass] = self._rows.__getitem__
        self._by_plugin: dict[str, dict[int, WaitingClass]] = {}
        self._by_namespace: dict[str, dict[int, WaitingClass]] = {}
        self._by_group: dict[str, dict[int, WaitingClass]] = {}
        self._neighbours = WaitingNeighbours()
        # When the backoff of a unit of a class ends.
        self._ripe: list[tuple[float, int]] = []
        # (turn, row) of the classes with waiting units, and of others that had some; `oldest` drops these.
        self._by_turn: list[tuple[int, int]] = []
        self._turns = 0

    def __bool__(self) -> bool:
        return bool(self._classes)

    def get(self, key: Hashable) -> WaitingClass | None:
        """The class with a key."""
        return self._classes.get(key)

    def put(self, traits: Traits, plugins: frozenset[str], number: int) -> WaitingClass:
        """The class of a unit that these plugins rejected after `number` events, made if it is new."""
        found = self._classes.get(traits.key)
        if found is None:
            found = self._make(traits)
        if found.plugins != plugins:
            self._unlist(found)
            found.plugins = plugins
            for name in plugins:
                self._by_plugin.setdefault(name, {})[found.row] = found
            self.table.set_refused(found.row, plugins)
        found.opened_by = []
        self.table.closed[found.row] = number
        return found

    def _make(self, traits: Traits) -> WaitingClass:
        row = self.table.take_row()
        found = self._classes[traits.key] = self._rows[row] = WaitingClass(traits, row)
        self.table.set_pods(row, traits.number, traits.priority, traits.requests)
        self.table.gangs[row] = traits.gang
        self.table.set_place(row, (math.inf, math.inf))
        if traits.kind is not None:
            self.table.kinds[row] = self.table.nodes.use(traits.kind)
        self._by_namespace.setdefault(traits.namespace, {})[row] = found
        self._neighbours.add(row, traits.terms)
        if traits.group:
            self._by_group.setdefault(traits.group, {})[row] = found
        return found

    def add(self, found: WaitingClass, unit: QueuedUnit, ready_at: float, now: float) -> None:
        """Add a unit to a class; its backoff ends at `ready_at`."""
        if not found.units:
            heapq.heappush(self._by_turn, (found.turn, found.row))
        found.add(unit, ready_at)
        self.table.waits[found.row] = True
        if ready_at > now:
            heapq.heappush(self._ripe, (ready_at, found.row))
        else:
            self._sort_in(found, now)

    def finish_backoffs(self, now: float) -> None:
        """Sort in the units whose backoff is over."""
        while self._ripe and self._ripe[0][0] <= now:
            found = self._rows.get(heapq.heappop(self._ripe)[1])
            if found is not None:
                self._sort_in(found, now)

    def _sort_in(self, found: WaitingClass, now: float) -> None:
        found.finish_backoffs(now, self._order)
        self.update_place(found)

    def update_place(self, found: WaitingClass) -> None:
        """Record the place of the class in queue order."""
        first = (
            (self._order(found.representative), found.representative)
            if found.representative is not None
            else found.first_ready()
        )
        place = (False, first[0]) if first is not None else (True, ())
        if place != found.place:
            found.place = place
            self.table.set_place(found.row, first[0] if first is not None else (math.inf, math.inf))

    def touch(self, found: WaitingClass, now: float) -> None:
        """Record an attempt of the class."""
        self._turns += 1
        found.tried_at, found.turn = now, self._turns
        self._classes.move_to_end(found.traits.key)
        if found.units:
            heapq.heappush(self._by_turn, (found.turn, found.row))
        if len(self._by_turn) > 2 * len(self._classes) + _FEW:
            self._by_turn = [(one.turn, one.row) for one in self._classes.values() if one.units]

    @property
    def oldest(self) -> WaitingClass | None:
        """The class with waiting units that was tried longest ago."""
        while self._by_turn:
            turn, row = self._by_turn[0]
            found = self._rows.get(row)
            if found is not None and found.units and found.turn == turn:
                return found
            heapq.heappop(self._by_turn)
        return None

    def tidy(self, found: WaitingClass) -> None:
        """Remove a class without units."""
        key, row = found.traits.key, found.row
        if not found.is_empty or self._classes.get(key) is not found:
            return
        del self._classes[key], self._rows[row]
        self._unlist(found)
        _discard(self._by_namespace, found.traits.namespace, row)
        _discard(self._by_group, found.traits.group, row)
        self._neighbours.remove(row)
        if self.table.kinds[row] >= 0:
            self.table.nodes.drop(found.traits.kind, int(self.table.kinds[row]))
        self.table.give_back(row)

    def all(self) -> Iterator[WaitingClass]:
        """Every class."""
        return iter(list(self._classes.values()))

    @property
    def plugins(self) -> MutableMapping[str, dict[int, WaitingClass]]:
        """Classes by the plugins that rejected them."""
        return self._by_plugin

    def of_plugin(self, name: str) -> Iterable[WaitingClass]:
        """Classes that a plugin rejected."""
        return self._by_plugin.get(name, {}).values()

    def of_namespace(self, namespace: str) -> Iterable[WaitingClass]:
        """Classes of a namespace."""
        return self._by_namespace.get(namespace, {}).values()

    def rows_of_namespace(self, namespace: str) -> NDArray[np.intp]:
        """int [M]: table rows of the classes of a namespace."""
        rows = self._by_namespace.get(namespace, {})
        return np.fromiter(rows, dtype=np.intp, count=len(rows))

    def of_group(self, key: str) -> Iterable[WaitingClass]:
        """Classes of pods that name a group."""
        return self._by_group.get(key, {}).values()

    def near(self, neighbour: Neighbour) -> Iterable[WaitingClass]:
        """Classes of pods that may have a rule about a pod."""
        return map(self.at, self._neighbours.about(neighbour))

    def _unlist(self, found: WaitingClass) -> None:
        for name in found.plugins:
            _discard(self._by_plugin, name, found.row)


def _discard(index: dict[str, dict[int, WaitingClass]], key: str, row: int) -> None:
    listed = index.get(key)
    if listed is not None and listed.pop(row, None) is not None and not listed:
        del index[key]
