"""Units that wait for an event, in classes: what refuses one unit of a class refuses all of it.

An event is judged once for a class, and for those alone that it can concern. One that may help opens a class:
the first unit in the order of the queue whose backoff is over, or else the one whose backoff ends first, is
tried for all of them. Where it starts, the next one follows; where it is refused again, so would be the
others, and the class rests until another event.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.unit import QueuedUnit
from scheduler_core.engine.waiting_table import WaitingTable
from scheduler_core.state.events import ClusterEvent

if TYPE_CHECKING:
    from scheduler_core.engine.news import News

# Entries of units that left may stay in the heaps until they are so many more than the units.
_FEW: Final = 64
# Events that a class remembers; after more of them it is tried whatever became of them.
_MOST_NEWS: Final = 8
_NOTHING: Final[Int64] = np.zeros(0, dtype=np.int64)

Entry = tuple[Any, int, str]


class Traits(NamedTuple):
    """What a unit has in common with others: `key` is equal for units that wait as one class.

    `namespace` and `group` (its key) are those of the pods, `number` is the namespace's id in the pod table
    (-1: none), `priority` the highest at which one evicts others, `requests` int64 [R] the least that one
    asks for, `kind` equal for pods that STATIC filters treat alike (None: no such answer).
    """

    key: Hashable
    namespace: str = ""
    group: str = ""
    number: int = -1
    priority: int = 0
    requests: Int64 = _NOTHING
    kind: Hashable = None


def alone(unit: QueuedUnit) -> Traits:
    """Each unit is a class of its own."""
    return Traits(unit.key)


class WaitingClass:
    """Units under one refusal, by `plugins`; `out` is the unit that is being tried for them, or None.

    `news` are the events that opened it and are worth a try only as long as they still may help; None where
    it is worth one in any case. `awaited_by` is news for several classes that goes on when it was tried.
    """

    __slots__ = (
        "_ready",
        "_resting",
        "awaited_by",
        "news",
        "out",
        "place",
        "plugins",
        "row",
        "said",
        "traits",
        "tried_at",
        "units",
    )

    def __init__(self, traits: Traits, row: int) -> None:
        self.traits = traits
        self.row = row
        self.plugins: frozenset[str] = frozenset()
        self.units: dict[str, QueuedUnit] = {}
        self.out: QueuedUnit | None = None
        self.news: list[ClusterEvent] | None = []
        self.awaited_by: list[News] = []
        self.tried_at = 0.0
        # The sort key of the first unit, or an earlier one; behind all others where backoffs are not over.
        self.place: tuple[bool, Any] = (True, ())
        # What was decided of the last one that was tried, for those that join.
        self.said: Any = None
        # By the time at which a backoff ends, and by the order of the queue where it has ended.
        self._resting: list[Entry] = []
        self._ready: list[Entry] = []

    def sample(self) -> QueuedUnit:
        """Any unit of it: all are alike. Raises StopIteration where there is none."""
        found = self.out if self.out is not None else next(iter(self.units.values()))
        # Its own last refusal may be older than that of the class.
        found.plugins = self.plugins
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits, nor is tried for those who did."""
        return not self.units and self.out is None

    @property
    def is_on_its_way(self) -> bool:
        """Whether the only unit is to be tried whatever else happens."""
        return self.news is None and self.out is not None and not self.units

    @property
    def is_open(self) -> bool:
        """Whether something happened since the last refusal that the class is worth a try for."""
        return self.news is None or bool(self.news)

    def add(self, unit: QueuedUnit, ready_at: float) -> None:
        """A unit waits from now on, whose backoff ends then."""
        self.units[unit.key] = unit
        heapq.heappush(self._resting, (ready_at, unit.entry, unit.key))
        if len(self._resting) + len(self._ready) > 2 * len(self.units) + _FEW:
            self._forget_who_left()

    def ripen(self, now: float, order: Any) -> None:
        """Sort those in whose backoff is over. `order` gives the sort key of a unit."""
        while self._resting and self._resting[0][0] <= now:
            entry = heapq.heappop(self._resting)
            if self._waits(entry):
                heapq.heappush(self._ready, (order(self.units[entry[2]]), entry[1], entry[2]))

    def first_ready(self) -> tuple[Any, QueuedUnit] | None:
        """The sort key of the first unit whose backoff is over, and the unit."""
        while self._ready and not self._waits(self._ready[0]):
            heapq.heappop(self._ready)
        return (self._ready[0][0], self.units[self._ready[0][2]]) if self._ready else None

    def first(self) -> QueuedUnit | None:
        """The unit to try next; None where nobody waits."""
        found = self.first_ready()
        if found is not None:
            return found[1]
        while self._resting and not self._waits(self._resting[0]):
            heapq.heappop(self._resting)
        return self.units[self._resting[0][2]] if self._resting else None

    def forget(self, unit: QueuedUnit) -> None:
        """The unit's place in the order of the queue is another now: it is to be added again."""
        self._ready = [entry for entry in self._ready if entry[2] != unit.key]
        heapq.heapify(self._ready)

    def open(self, event: ClusterEvent | None) -> None:
        """Something happened: worth a try as long as `event` may help, or in any case where it is None."""
        if event is None or self.news is None or len(self.news) >= _MOST_NEWS:
            self.news = None
        else:
            self.news.append(event)

    def _waits(self, entry: Entry) -> bool:
        unit = self.units.get(entry[2])
        return unit is not None and unit.entry == entry[1]

    def _forget_who_left(self) -> None:
        self._resting = [entry for entry in self._resting if self._waits(entry)]
        self._ready = [entry for entry in self._ready if self._waits(entry)]
        heapq.heapify(self._resting)
        heapq.heapify(self._ready)


class Waiting:
    """All classes, in the order of their last tries, and in indices by which events find them.

    `order` gives the sort key of a unit.
    """

    def __init__(self, table: WaitingTable, order: Any) -> None:
        self.table = table
        self._order = order
        self._classes: OrderedDict[Hashable, WaitingClass] = OrderedDict()
        self._rows: dict[int, WaitingClass] = {}
        # The class in a row of the table.
        self.at: Callable[[int], WaitingClass] = self._rows.__getitem__
        self._by_plugin: dict[str, dict[int, WaitingClass]] = {}
        self._by_namespace: dict[str, dict[int, WaitingClass]] = {}
        self._by_group: dict[str, dict[int, WaitingClass]] = {}
        # When the backoff of a unit of a class ends.
        self._ripe: list[tuple[float, int]] = []

    def __bool__(self) -> bool:
        return bool(self._classes)

    def get(self, key: Hashable) -> WaitingClass | None:
        """The class with a key."""
        return self._classes.get(key)

    def put(self, traits: Traits, plugins: frozenset[str], number: int) -> WaitingClass:
        """The class of a unit that these plugins refused, after so many events: so they would all of it."""
        found = self._classes.get(traits.key)
        if found is None:
            found = self._make(traits)
        if found.plugins != plugins:
            self._unlist(found)
            found.plugins = plugins
            for name in plugins:
                self._by_plugin.setdefault(name, {})[found.row] = found
            self.table.set_refused(found.row, plugins)
        found.news = []
        self.table.closed[found.row] = number
        return found

    def _make(self, traits: Traits) -> WaitingClass:
        row = self.table.take_row()
        found = self._classes[traits.key] = self._rows[row] = WaitingClass(traits, row)
        self.table.set_pods(row, traits.number, traits.priority, traits.requests)
        self.table.set_place(row, (math.inf, math.inf))
        if traits.kind is not None:
            self.table.kinds[row] = self.table.nodes.use(traits.kind)
        self._by_namespace.setdefault(traits.namespace, {})[row] = found
        if traits.group:
            self._by_group.setdefault(traits.group, {})[row] = found
        return found

    def add(self, found: WaitingClass, unit: QueuedUnit, ready_at: float, now: float) -> None:
        """A unit of a class waits from now on, whose backoff ends then."""
        found.add(unit, ready_at)
        self.table.waits[found.row] = True
        if ready_at > now:
            heapq.heappush(self._ripe, (ready_at, found.row))
        else:
            self._sort_in(found, now)

    def ripen(self, now: float) -> None:
        """Sort those in whose backoff is over."""
        while self._ripe and self._ripe[0][0] <= now:
            found = self._rows.get(heapq.heappop(self._ripe)[1])
            if found is not None:
                self._sort_in(found, now)

    def _sort_in(self, found: WaitingClass, now: float) -> None:
        found.ripen(now, self._order)
        self.settle_place(found)

    def settle_place(self, found: WaitingClass) -> None:
        """Note where the class is in the order of the queue."""
        first = (self._order(found.out), found.out) if found.out is not None else found.first_ready()
        place = (False, first[0]) if first is not None else (True, ())
        if place != found.place:
            found.place = place
            self.table.set_place(found.row, first[0] if first is not None else (math.inf, math.inf))

    def touch(self, found: WaitingClass, now: float) -> None:
        """One of the class is tried."""
        found.tried_at = now
        self._classes.move_to_end(found.traits.key)

    @property
    def oldest(self) -> WaitingClass | None:
        """The class with units that was not tried for longest."""
        return next((one for one in self._classes.values() if one.units), None)

    def tidy(self, found: WaitingClass) -> None:
        """Forget a class without units."""
        key, row = found.traits.key, found.row
        if not found.is_empty or self._classes.get(key) is not found:
            return
        del self._classes[key], self._rows[row]
        self._unlist(found)
        _take_out(self._by_namespace, found.traits.namespace, row)
        _take_out(self._by_group, found.traits.group, row)
        if self.table.kinds[row] >= 0:
            self.table.nodes.drop(found.traits.kind, int(self.table.kinds[row]))
        self.table.give_back(row)

    def all(self) -> Iterator[WaitingClass]:
        """Every class."""
        return iter(list(self._classes.values()))

    @property
    def plugins(self) -> MutableMapping[str, dict[int, WaitingClass]]:
        """Classes by the plugins that refused them."""
        return self._by_plugin

    def of_plugin(self, name: str) -> Iterable[WaitingClass]:
        """Classes that a plugin refused."""
        return self._by_plugin.get(name, {}).values()

    def of_namespace(self, namespace: str) -> Iterable[WaitingClass]:
        """Classes of a namespace."""
        return self._by_namespace.get(namespace, {}).values()

    def of_group(self, key: str) -> Iterable[WaitingClass]:
        """Classes of pods that name a group."""
        return self._by_group.get(key, {}).values()

    def _unlist(self, found: WaitingClass) -> None:
        for name in found.plugins:
            _take_out(self._by_plugin, name, found.row)


def _take_out(index: dict[str, dict[int, WaitingClass]], key: str, row: int) -> None:
    listed = index.get(key)
    if listed is not None and listed.pop(row, None) is not None and not listed:
        del index[key]
