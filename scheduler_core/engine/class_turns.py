"""Whose turn it is of the units that wait as one class, and of the classes that the same room may help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from enum import Enum
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.news import Concern, News
from scheduler_core.engine.unit import Part, QueuedUnit
from scheduler_core.engine.waiting import Traits, Waiting, WaitingClass
from scheduler_core.engine.waiting_table import WaitingTable
from scheduler_core.framework.hints import NOBODY
from scheduler_core.state.events import ClusterEvent

CLASS_MOVED: Final = "ClassMoved"


class Wake(Enum):
    """Whether an event may help a unit: not, as long as it is so when the unit is tried, or in any case."""

    NO = 0
    WHILE_SO = 1
    YES = 2


Wakes = Callable[[QueuedUnit, ClusterEvent], Wake]


class ClassTurns:
    """Classes of waiting units, and news of room that some of them may use.

    `wakes` says whether an event may help a unit, `order` gives its sort key. `activate` lets a unit be tried
    because of something, `put_back` lets it wait on; `class_of` finds the class of a waiting pod, `unit_of`
    a unit by its key.
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
    ) -> None:
        self.waiting = Waiting(table, order)
        self._wakes = wakes
        self._order = order
        self._activate = activate
        self._put_back = put_back
        self._class_of = class_of
        self._unit_of = unit_of
        # Events so far.
        self._number = 0
        # Open classes of which nobody is being tried, and news of which nobody is; how much other news waits.
        self._moved: list[WaitingClass] = []
        self._idle: list[News] = []
        self._attached = 0

    def __bool__(self) -> bool:
        """Whether `go_on` has something to do."""
        return bool(self._moved) or bool(self._idle)

    # Units come and go

    def add(self, unit: QueuedUnit, traits: Traits, ready_at: float, now: float) -> None:
        """A unit was refused by its `plugins`, and waits; its class rests until another event."""
        found = self.waiting.put(traits, unit.plugins, self._number)
        unit.waits_in = found
        self.waiting.add(found, unit, ready_at, now)
        self.waiting.touch(found, now)

    def leave(self, unit: QueuedUnit) -> None:
        """A unit waits no more."""
        found, unit.waits_in = unit.waits_in, None
        if found is not None:
            found.units.pop(unit.key, None)
            self.waiting.tidy(found)

    def stand_down(self, unit: QueuedUnit) -> None:
        """A unit is not tried for its class any more; soon the next one is."""
        found, unit.stands_for = unit.stands_for, None
        if found is None:
            return
        found.out = None
        self._attached -= len(found.awaited_by)
        self._idle += found.awaited_by
        found.awaited_by = []
        self.waiting.settle_place(found)
        if found.is_open:
            self._moved.append(found)
        else:
            self.waiting.tidy(found)

    def is_worth_it(self, unit: QueuedUnit) -> bool:
        """Whether what opened the class of a unit whose turn has come may still help it."""
        found = unit.stands_for
        if found is None or found.news is None:
            return True
        found.news = [event for event in found.news if self._helps(unit, event)]
        left = []
        for news in found.awaited_by:
            if self._helps(unit, news.event):
                left.append(news)
            else:
                news.exclude(found.row)
                self._idle.append(news)
                self._attached -= 1
        found.awaited_by = left
        return bool(found.news or left)

    def wait_on(self, unit: QueuedUnit, ready_at: float, now: float) -> None:
        """It is not: the unit waits as before."""
        found, unit.stands_for = unit.stands_for, None
        if found is not None:
            found.out, unit.waits_in = None, found
            self.waiting.add(found, unit, ready_at, now)
            self.waiting.settle_place(found)

    def reorder(self, unit: QueuedUnit, ready_at: float, now: float) -> None:
        """A waiting unit has another place in the order of the queue."""
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
        """Open the classes that an event may help; gives how many units are to be tried because of it.

        `concerns` None: any class may be concerned. `others` are units of no class that it helps.
        """
        self._number += 1
        self.waiting.ripen(now)
        asked: dict[int, WaitingClass] = {}
        for concern in concerns or ():
            if concern.reach != NOBODY:
                asked.update((found.row, found) for found in self._reached(concern))
        woken = [*others, *self._members(event, concerns or ())]
        woken += self._opened(self.waiting.all() if concerns is None else asked.values(), event, now)
        # In the order in which they began to wait, whoever refused them.
        woken.sort(key=lambda unit: unit.entry)
        for unit in woken:
            self._activate(unit, now, cause)
        number = len(woken)
        for concern in concerns or ():
            if concern.room is not None:
                news = News(event, self._number, concern.plugin, concern.room)
                number += self._pursue(news, now, cause)
        return number

    def _members(self, event: ClusterEvent, concerns: Iterable[Concern]) -> Iterator[QueuedUnit]:
        """Gangs that wait as one class with others, if an event is about one of them alone."""
        asked = {concern.reach.group for concern in concerns if concern.reach.group}
        for unit in map(self._unit_of, asked):
            found = unit.waits_in if unit is not None else None
            if unit is not None and found is not None and not found.traits.group:
                unit.plugins = found.plugins
                if self._helps(unit, event):
                    yield unit

    def _reached(self, concern: Concern) -> Iterable[WaitingClass]:
        reach, name = concern.reach, concern.plugin
        if reach.everybody:
            yield from self.waiting.of_plugin(name)
            return
        for namespace in reach.namespaces:
            yield from (found for found in self.waiting.of_namespace(namespace) if name in found.plugins)
        for found in self.waiting.of_group(reach.group) if reach.group else ():
            if name in found.plugins:
                yield found
        for uid in concern.nominated:
            nominated = self._class_of(uid)
            if nominated is not None and name in nominated.plugins:
                yield nominated

    def _opened(self, classes: Iterable[WaitingClass], event: ClusterEvent, now: float) -> list[QueuedUnit]:
        woken = []
        for found in classes:
            if found.is_empty or found.is_on_its_way:
                continue
            wake = self._wakes(found.sample(), event)
            if wake is Wake.NO:
                continue
            found.open(event if wake is Wake.WHILE_SO else None)
            self._recall(found, now)
            first = found.first() if found.out is None else None
            if first is not None:
                self._take_turn(found, first, now)
                woken.append(first)
        return woken

    def _recall(self, found: WaitingClass, now: float) -> None:
        """Put back who is to be tried for a class, if another unit goes before it by now."""
        out, ready = found.out, found.first_ready()
        if out is None or ready is None or out.entry < 0:
            return
        if out.part is Part.BACKOFF or (out.part is Part.ACTIVE and ready[0] < self._order(out)):
            self._put_back(out, now)

    def _take_turn(self, found: WaitingClass, unit: QueuedUnit, now: float) -> None:
        found.out, unit.stands_for, unit.plugins = unit, found, found.plugins
        self.waiting.touch(found, now)
        self.waiting.settle_place(found)

    def _helps(self, unit: QueuedUnit, event: ClusterEvent) -> bool:
        return self._wakes(unit, event) is not Wake.NO

    # One after the other

    def go_on(self, now: float) -> None:
        """Let those be tried who follow the ones that were."""
        self.waiting.ripen(now)
        while self._moved:
            self.send_next(self._moved.pop(), now)
        while self._idle:
            self._pursue(self._idle.pop(), now, CLASS_MOVED)

    def send_next(self, found: WaitingClass, now: float, cause: str = CLASS_MOVED) -> None:
        """Let the next unit of a class be tried, while it is worth it."""
        unit = found.first() if found.out is None else None
        if unit is None:
            self.waiting.tidy(found)
            return
        if found.news is not None:
            found.news = [event for event in found.news if self._helps(found.sample(), event)]
        if not found.is_open:
            return
        self._take_turn(found, unit, now)
        self._activate(unit, now, cause)

    def open_oldest(self, now: float, before: float) -> bool:
        """Try the class that was not tried for longest, whatever happened, if that was before then."""
        oldest = self.waiting.oldest
        if oldest is None or oldest.tried_at > before:
            return False
        self.waiting.touch(oldest, now)
        oldest.open(None)
        self.send_next(oldest, now, "UnschedulableTimeout")
        return True

    def _pursue(self, news: News, now: float, cause: str) -> int:
        """Attach news to the foremost class that it may help; gives how many units are to be tried for it."""
        number = 0
        for best in self._in_order(news.whom(self.waiting.table)):
            if best.is_empty:
                continue
            if not self._helps(best.sample(), news.event):
                news.exclude(best.row)
                continue
            self._recall(best, now)
            unit = best.out if best.out is not None else best.first()
            rests = best.first_ready() is None if best.out is None else best.out.part is Part.BACKOFF
            if rests:
                # Others need not wait for the end of its backoff.
                best.open(news.event)
                news.exclude(best.row)
            else:
                best.awaited_by.append(news)
                self._attached += 1
            if unit is not None and best.out is None:
                number += 1
                self._take_turn(best, unit, now)
                self._activate(unit, now, cause)
            if not rests:
                break
        return number

    def _in_order(self, rows: NDArray[np.intp]) -> Iterator[WaitingClass]:
        """The classes in some rows of the table, in the order of the queue."""
        if not len(rows):
            return
        # Mostly the first one is enough.
        front = self.waiting.table.foremost(rows)
        first = min(map(self.waiting.at, front.tolist()), key=_place)
        noted = first.place
        self.waiting.settle_place(first)
        done = -1
        if first.place == noted:
            done = first.row
            yield first
        others = [self.waiting.at(row) for row in rows.tolist() if row != done]
        for found in others:
            # What is noted of its place may be of a unit that left.
            self.waiting.settle_place(found)
        yield from sorted(others, key=_place)

    def resting(self, key: Hashable) -> WaitingClass | None:
        """The class of a key if nothing that happened since its last refusal can help it, else None."""
        found = self.waiting.get(key)
        if found is None or found.out is not None or found.is_open or self._idle or self._attached:
            return None
        return found


_place = attrgetter("place")
