"""Waiting classes beside a plain model of them: indexes, columns that grow, and rows that are used again."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.engine.queue.unit import QueuedUnit, Traits, WaitingClass
from scheduler_core.engine.queue.waiting_classes import WaitingClasses
from scheduler_core.engine.queue.waiting_table import RECLAIMING, NodesOfKinds, WaitingTable
from scheduler_core.framework.queueing.hints import EvictableRequests, Room
from scheduler_core.framework.queueing.quota_obstacles import FAIR_MOVE, RECLAIM
from tests.support.every import every_seed

PLUGINS = ("Fit", "Affinity", RECLAIM, FAIR_MOVE)
NODES = 5
STEPS = 400


def vector(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


@dataclass
class Known:
    """What the model knows of a class."""

    traits: Traits
    plugins: frozenset[str]
    closed: int
    found: WaitingClass
    units: dict[str, tuple[QueuedUnit, float]] = field(default_factory=dict)

    def place(self, now: float) -> tuple[float, float]:
        ready = [(unit.created, 0.0) for unit, at in self.units.values() if at <= now]
        return min(ready, default=(math.inf, math.inf))


class Beside:
    """Classes, and a dictionary of them that is asked slowly."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.log = ChangeLog()
        self.table = WaitingTable(NodesOfKinds(self.log))
        self.classes = WaitingClasses(self.table, lambda unit: (unit.created, 0.0))
        self.known: dict[Any, Known] = {}
        # By kind, the nodes that it may not use.
        self.barred: dict[Any, set[int]] = {}
        self.now = 0.0
        self.number = 0

    def rejects(self) -> None:
        """A unit is rejected: of a new class, or of one that waits."""
        dice, key = self.dice, f"class-{self.dice.randrange(150)}"
        before = self.known.get(key)
        traits = before.traits if before is not None else self._traits(key)
        plugins = frozenset(dice.sample(PLUGINS, dice.randint(1, 3)))
        self.number += 1
        found = self.classes.put(traits, plugins, self.number)
        entry = self.known.setdefault(key, Known(traits, plugins, self.number, found))
        assert entry.found is found
        entry.plugins, entry.closed = plugins, self.number
        unit = QueuedUnit(f"{key}-{self.number}", float(dice.randrange(50)), entry=self.number)
        ready = self.now + dice.choice([-1, 0, 2])
        self.classes.add(found, unit, ready, self.now)
        self.classes.touch(found, self.now)
        entry.units[unit.key] = (unit, ready)
        self.known[key] = self.known.pop(key)

    def _traits(self, key: str) -> Traits:
        dice = self.dice
        asked = vector(*(dice.randrange(6) for _ in range(dice.randint(1, 4))))
        space = dice.randrange(4)
        group = dice.choice(["", "", "one", "two"])
        kind = dice.choice([None, "a", "b", "c", "d"])
        return Traits(key, f"space-{space}", group, space - 1, dice.randrange(4), asked, kind)

    def goes(self) -> None:
        """The units of a class are gone."""
        if self.known:
            key = self.dice.choice(sorted(self.known))
            gone = self.known.pop(key).found
            gone.units.clear()
            self.classes.tidy(gone)
            if not any(one.traits.kind == gone.traits.kind for one in self.known.values()):
                self.barred.pop(gone.traits.kind, None)

    def learns(self) -> None:
        entry = self.dice.choice([*self.known.values()]) if self.known else None
        if entry is not None and entry.traits.kind is not None:
            ok = np.array([self.dice.random() < 0.5 for _ in range(NODES)])
            self.number += 1
            self.table.nodes.learn(int(self.table.kinds[entry.found.row]), self.number, ok)
            self.barred[entry.traits.kind] = set(np.flatnonzero(~ok).tolist())

    def node_changes(self) -> None:
        slot = self.dice.randrange(NODES)
        self.log.append(slot)
        for barred in self.barred.values():
            barred.discard(slot)

    def time_passes(self) -> None:
        self.now += 1.0
        self.classes.finish_backoffs(self.now)

    def step(self) -> None:
        steps = (self.rejects, self.goes, self.learns, self.node_changes, self.time_passes)
        self.dice.choices(steps, (8, 2, 2, 1, 1))[0]()

    def helped(self, plugin: str, room: Room, number: int) -> set[Any]:
        """The model's answer to `rows_helped`."""
        return {key for key, one in self.known.items() if self._is_helped(one, plugin, room, number)}

    def _is_helped(self, one: Known, plugin: str, room: Room, number: int) -> bool:
        if plugin not in one.plugins or one.closed >= number:
            return False
        if room.slot in self.barred.get(one.traits.kind, ()):
            return False
        traits = one.traits
        asked = [*traits.requests.tolist(), 0, 0, 0, 0][: len(room.free)]
        free = room.free.tolist()
        if all(a <= max(f, 0) for a, f in zip(asked, free, strict=True)):
            return True
        if room.evictable is not None:
            found = room.evictable(9, True)
            assert found is not None
            reclaims = bool(RECLAIMING & one.plugins)
            counted = sum(reclaims or priority < traits.priority for priority in found.priorities.tolist())
            more = (found.held[:, counted] + found.leaving).tolist()
            if all(a <= max(f + m, 0) for a, f, m in zip(asked, free, more, strict=True)):
                return True
        lowest = [] if room.lowest is None else room.lowest.tolist()
        return 0 <= traits.number < len(lowest) and lowest[traits.number] < traits.priority

    def room(self) -> Room:
        dice = self.dice
        free = vector(*(dice.randrange(-1, 5) for _ in range(4)))
        held = np.cumsum([[0, dice.randrange(3), dice.randrange(3)] for _ in range(4)], axis=1)
        some = EvictableRequests(vector(0, 2), held, vector(*(dice.randrange(2) for _ in range(4))))
        lowest = vector(*(dice.randrange(4) for _ in range(dice.randint(1, 3))))
        return Room(
            free,
            dice.choice([None, *range(NODES)]),
            dice.choice([None, lambda _above, _all: some]),
            dice.choice([None, lowest]),
        )


def keys(classes: Any) -> list[Any]:
    return sorted(found.traits.key for found in classes)


@every_seed(range(2))
def test_classes_are_found_as_a_plain_model_finds_them(seed: int) -> None:
    beside = Beside(seed)
    known, classes = beside.known, beside.classes
    for _ in range(STEPS):
        beside.step()
        plugin, room, number = beside.dice.choice(PLUGINS), beside.room(), beside.number + 1
        since = beside.dice.choice([number, number, beside.number, beside.number // 2])
        rows = beside.table.rows_helped(plugin, room, since)
        assert {classes.at(row).traits.key for row in rows.tolist()} == beside.helped(plugin, room, since)
        assert keys(classes.of_plugin(plugin)) == sorted(
            k for k, one in known.items() if plugin in one.plugins
        )
        for name in ("space-0", "space-3"):
            expected = sorted(k for k, one in known.items() if one.traits.namespace == name)
            assert keys(classes.of_namespace(name)) == expected
        for name in ("one", "two"):
            assert keys(classes.of_group(name)) == sorted(
                k for k, o in known.items() if o.traits.group == name
            )
        assert [found.traits.key for found in classes.all()] == [*known]
        assert bool(classes) == bool(known)
        oldest = classes.oldest
        assert (oldest.traits.key if oldest is not None else None) == next(iter(known), None)
        if known:
            foremost = beside.table.foremost(np.array([one.found.row for one in known.values()]))
            places = {key: one.place(beside.now) for key, one in known.items()}
            first = {key for key, place in places.items() if place == min(places.values())}
            assert {classes.at(row).traits.key for row in foremost.tolist()} == first
    assert len(known) > 64, "the table has grown"
    assert set(classes.plugins) == {name for one in known.values() for name in one.plugins}
