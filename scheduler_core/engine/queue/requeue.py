"""Requeues waiting units class by class after cluster events.

Of each class one unit, the representative, is tried for all: while its attempts succeed the next unit
follows. Room freed on a node goes to the foremost class in queue order that it may help, then to the next
one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from enum import Enum
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.queue.fair_places import FairPlaces
from scheduler_core.engine.queue.unit import Part, QueuedUnit, Traits, WaitingClass
from scheduler_core.engine.queue.waiting_classes import WaitingClasses
from scheduler_core.engine.queue.waiting_table import Concern, FreedRoom, WaitingTable
from scheduler_core.framework.queueing.hints import NOBODY
from scheduler_core.quota.fair_order import FairPlace
from scheduler_core.state.events import ClusterEvent

CLASS_MOVED: Final = "ClassMoved"


class Wake(Enum):
    """Whether an event may help a unit.

    NO: it cannot. WHILE_SO: it may, if the hint still says so when the unit is popped. YES: try in any case.
    """

    NO = 0
    WHILE_SO = 1
    YES = 2


# Asked about a unit, an event, and the plugins whose hints count: those that rejected the unit, or some of
# them.
Wakes = Callable[[QueuedUnit, ClusterEvent, frozenset[str]], Wake]


class ClassRequeuer:
    """Moves representatives of waiting classes to the active queue.

    `wakes` tells whether an event may help a unit, by the hints of some plugins; `order` gives a unit's sort
    key. `activate` requeues a unit with a cause, `put_back` returns it to the unschedulable part. `class_of`
    finds the class of a waiting pod by uid, `unit_of` a unit by key. `places`: the order among namespaces,
    None for the sort key.
    """

    def __init__(
        self,
        table: WaitingTable,
        wakes: Wakes,
        order: Callable[[QueuedUnit], tuple[Any, ...]],
        activate: Callable[[QueuedUnit, float, str], None],
        put_back: Callable[[QueuedUnit, float], None],
        class_of: Callable[[str], WaitingClass | None],
        unit_of: Callable[[str], QueuedUnit | None],
        places: FairPlaces | None = None,
    ) -> None:
        self.waiting = WaitingClasses(table, order)
        self._wakes = wakes
        self._order = order
        self._activate = activate
        self._put_back = put_back
        self._class_of = class_of
        self._unit_of = unit_of
        self._places = places
        # Events so far.
        self._number = 0
        # Open classes without a representative; freed rooms attached to no class, and how many are attached.
        self._open_classes: list[WaitingClass] = []
        self._idle_rooms: list[FreedRoom] = []
        self._attached = 0

    def __bool__(self) -> bool:
        """Whether `continue_attempts` has work."""
        return bool(self._open_classes) or bool(self._idle_rooms)

    # Units come and go

    def add(self, unit: QueuedUnit, traits: Traits, ready_at: float, now: float) -> None:
        """Add a unit rejected by its `plugins`; its class waits for the next event."""
        found = self.waiting.put(traits, unit.plugins, self._number)
        unit.waits_in = found
        self.waiting.add(found, unit, ready_at, now)
        self.waiting.touch(found, now)

    def leave(self, unit: QueuedUnit) -> None:
        """Remove a unit that no longer waits."""
        found, unit.waits_in = unit.waits_in, None
        if found is not None:
            found.units.pop(unit.key, None)
            self.waiting.tidy(found)

    def release_class(self, unit: QueuedUnit) -> None:
        """End the attempt of a representative; `continue_attempts` starts that of the next one."""
        found, unit.stands_for = unit.stands_for, None
        if found is None:
            return
        found.representative = None
        self._attached -= len(found.freed_rooms)
        self._idle_rooms += found.freed_rooms
        found.freed_rooms = []
        self.waiting.update_place(found)
        if found.is_open:
            self._open_classes.append(found)
        else:
            self.waiting.tidy(found)

    def is_worth_trying(self, unit: QueuedUnit) -> bool:
        """Whether an event that opened the class of a popped representative may still help it."""
        found = unit.stands_for
        if found is None or found.opened_by is None:
            return True
        found.opened_by = [event for event in found.opened_by if self._helps(unit, event)]
        left = []
        for freed in found.freed_rooms:
            if self._has_room(unit, freed):
                left.append(freed)
            else:
                freed.exclude(found.row)
                self._idle_rooms.append(freed)
                self._attached -= 1
        found.freed_rooms = left
        return bool(found.opened_by or left)

    def wait_on(self, unit: QueuedUnit, ready_at: float, now: float) -> None:
        """Return a representative that is not worth trying to its class."""
        found, unit.stands_for = unit.stands_for, None
        if found is not None:
            found.representative, unit.waits_in = None, found
            self.waiting.add(found, unit, ready_at, now)
            self.waiting.update_place(found)

    def reorder(self, unit: QueuedUnit, ready_at: float, now: float) -> None:
        """Update the place of a waiting unit whose sort key changed."""
        found = unit.waits_in
        if found is not None:
            found.forget(unit)
            self.waiting.add(found, unit, ready_at, now)

    # Something happened

    def tell(
        self,
        event: ClusterEvent,
        concerns: Collection[Concern] | None,
        now: float,
        cause: str,
        others: Iterable[QueuedUnit] = (),
    ) -> int:
        """Open the classes that an event may help; gives the number of units that were requeued.

        `concerns` None: any class may be concerned. `others`: units outside all classes that the event helps.
        """
        self._number += 1
        self.waiting.finish_backoffs(now)
        woken = [*others, *self._members(event, concerns or ())]
        woken += self._opened(self._asked(concerns), event, now)
        # In the order in which they began to wait.
        woken.sort(key=lambda unit: unit.entry)
        for unit in woken:
            self._activate(unit, now, cause)
        number = len(woken)
        for concern in concerns or ():
            if concern.room is not None:
                freed = FreedRoom(event, self._number, concern.plugin, concern.room)
                number += self._attach(freed, now, cause)
        return number

    def _members(self, event: ClusterEvent, concerns: Iterable[Concern]) -> Iterator[QueuedUnit]:
        """Gangs that share a class with other gangs, where the event concerns one of them alone."""
        asked = {concern.reach.group for concern in concerns if concern.reach.group}
        for unit in map(self._unit_of, asked):
            found = unit.waits_in if unit is not None else None
            if unit is not None and found is not None and not found.traits.group:
                unit.plugins = found.plugins
                if self._helps(unit, event):
                    yield unit

    def _asked(self, concerns: Collection[Concern] | None) -> Iterable[tuple[WaitingClass, frozenset[str]]]:
        """The classes that an event can concern, each with the plugins whose hints are asked about it.

        The hints of other plugins cannot accept the event, or speak of room, which finds its classes itself.
        """
        if concerns is None:
            return ((found, found.plugins) for found in self.waiting.all())
        asked: dict[int, tuple[WaitingClass, frozenset[str]]] = {}
        for concern in concerns:
            names = frozenset({concern.plugin})
            for found in self._reached(concern) if concern.reach != NOBODY else ():
                known = asked.get(found.row)
                asked[found.row] = found, names if known is None else known[1] | names
        return asked.values()

    def _reached(self, concern: Concern) -> Iterable[WaitingClass]:
        reach, name = concern.reach, concern.plugin
        if reach.everybody:
            yield from self.waiting.of_plugin(name)
            return
        for namespace in reach.namespaces:
            classes = self.waiting.of_namespace(namespace)
            if reach.band is not None:
                rows = self.waiting.rows_of_namespace(namespace)
                classes = map(self.waiting.at, self.waiting.table.within(rows, reach.band).tolist())
            yield from (found for found in classes if name in found.plugins)
        for neighbour in reach.near:
            yield from (found for found in self.waiting.near(neighbour) if name in found.plugins)
        for found in self.waiting.of_group(reach.group) if reach.group else ():
            if name in found.plugins:
                yield found
        for uid in concern.nominated:
            nominated = self._class_of(uid)
            if nominated is not None and name in nominated.plugins:
                yield nominated

    def _opened(
        self, classes: Iterable[tuple[WaitingClass, frozenset[str]]], event: ClusterEvent, now: float
    ) -> list[QueuedUnit]:
        woken = []
        for found, plugins in classes:
            if found.is_empty or found.is_unconditional:
                continue
            wake = self._wakes(found.sample(), event, plugins)
            if wake is Wake.NO:
                continue
            found.open(event if wake is Wake.WHILE_SO else None)
            self._replace_representative(found, now)
            first = found.first() if found.representative is None else None
            if first is not None:
                self._send(found, first, now)
                woken.append(first)
        return woken

    def _replace_representative(self, found: WaitingClass, now: float) -> None:
        """Put a representative back if another unit of its class precedes it by now."""
        out, ready = found.representative, found.first_ready()
        if out is None or ready is None or out.entry < 0:
            return
        if out.part is Part.BACKOFF or (out.part is Part.ACTIVE and ready[0] < self._order(out)):
            self._put_back(out, now)

    def _send(self, found: WaitingClass, unit: QueuedUnit, now: float) -> None:
        found.representative, unit.stands_for, unit.plugins = unit, found, found.plugins
        self.waiting.touch(found, now)
        self.waiting.update_place(found)

    def _helps(self, unit: QueuedUnit, event: ClusterEvent) -> bool:
        return self._wakes(unit, event, unit.plugins) is not Wake.NO

    def _has_room(self, unit: QueuedUnit, freed: FreedRoom) -> bool:
        return self._wakes(unit, freed.event, frozenset({freed.plugin})) is not Wake.NO

    # One after the other

    def continue_attempts(self, now: float) -> None:
        """Requeue the next units of open classes and for freed rooms."""
        self.waiting.finish_backoffs(now)
        while self._open_classes:
            self.send_next(self._open_classes.pop(), now)
        while self._idle_rooms:
            self._attach(self._idle_rooms.pop(), now, CLASS_MOVED)

    def send_next(self, found: WaitingClass, now: float, cause: str = CLASS_MOVED) -> None:
        """Requeue the next unit of a class if an event may still help it."""
        unit = found.first() if found.representative is None else None
        if unit is None:
            self.waiting.tidy(found)
            return
        if found.opened_by is not None:
            found.opened_by = [event for event in found.opened_by if self._helps(found.sample(), event)]
        if not found.is_open:
            return
        self._send(found, unit, now)
        self._activate(unit, now, cause)

    def open_oldest(self, now: float, after: float) -> bool:
        """Requeue a unit of the class that was tried longest ago, if that was `after` seconds ago or more."""
        oldest = self.waiting.oldest
        # The sum, as those who ask when it is due compute it: a difference may be rounded otherwise.
        if oldest is None or oldest.tried_at + after > now:
            return False
        self.waiting.touch(oldest, now)
        oldest.open(None)
        self.send_next(oldest, now, "UnschedulableTimeout")
        return True

    def _attach(self, freed: FreedRoom, now: float, cause: str) -> int:
        """Attach a freed room to the foremost class that it may help; gives the number of requeued units."""
        number = 0
        for best in self._in_order(freed.rows_helped(self.waiting.table)):
            if best.is_empty:
                continue
            if not self._has_room(best.sample(), freed):
                freed.exclude(best.row)
                continue
            self._replace_representative(best, now)
            unit = best.representative if best.representative is not None else best.first()
            rests = (
                best.first_ready() is None
                if best.representative is None
                else best.representative.part is Part.BACKOFF
            )
            if rests:
                # The class is in backoff: other classes need not wait for its end.
                best.open(freed.event)
                freed.exclude(best.row)
            else:
                best.freed_rooms.append(freed)
                self._attached += 1
            if unit is not None and best.representative is None:
                number += 1
                self._send(best, unit, now)
                self._activate(unit, now, cause)
            if not rests:
                break
        return number

    def _in_order(self, rows: NDArray[np.intp]) -> Iterator[WaitingClass]:
        """The classes of some table rows in queue order."""
        if self._places is None or len(rows) < 2:
            return self._by_sort_key(rows)
        return self._by_fair_place(self._places, rows)

    def _by_fair_place(self, places: FairPlaces, rows: NDArray[np.intp]) -> Iterator[WaitingClass]:
        """As `_in_order`: the namespace whose first unit has the lowest place comes first."""
        numbers = self.waiting.table.namespaces[rows]
        lines = {int(number): self._by_sort_key(rows[numbers == number]) for number in np.unique(numbers)}
        heap: list[tuple[FairPlace, tuple[bool, Any], int, WaitingClass]] = []

        def follow(number: int) -> None:
            found = next((one for one in lines[number] if not one.is_empty), None)
            if found is not None:
                unit = found.representative or found.first() or found.sample()
                heapq.heappush(heap, (places.of(unit), found.place, found.row, found))

        for number in lines:
            follow(number)
        while heap:
            found = heapq.heappop(heap)[3]
            yield found
            follow(int(self.waiting.table.namespaces[found.row]))

    def _by_sort_key(self, rows: NDArray[np.intp]) -> Iterator[WaitingClass]:
        if not len(rows):
            return
        # Mostly the first one is enough.
        front = self.waiting.table.foremost(rows)
        first = min(map(self.waiting.at, front.tolist()), key=_place)
        noted = first.place
        self.waiting.update_place(first)
        done = -1
        if first.place == noted:
            done = first.row
            yield first
        others = [self.waiting.at(row) for row in rows.tolist() if row != done]
        for found in others:
            # The recorded place may be that of a unit that left.
            self.waiting.update_place(found)
        yield from sorted(others, key=_place)

    def resting(self, key: Hashable) -> WaitingClass | None:
        """The class of a key if no event since its last rejection can help it, else None."""
        found = self.waiting.get(key)
        if (
            found is None
            or found.representative is not None
            or found.is_open
            or self._idle_rooms
            or self._attached
        ):
            return None
        return found


_place = attrgetter("place")
