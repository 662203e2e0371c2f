"""Columns over the waiting classes that answer which of them freed room may help, and which goes first.

A class has a row while it waits. All answers are upper bounds: no class is left out that the room could help.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.queueing.hints import (
    Band,
    EvictableRequests,
    FindEvictableRequests,
    Reach,
    Room,
)
from scheduler_core.framework.queueing.obstacles import WITHIN_MIN
from scheduler_core.framework.queueing.quota_obstacles import FAIR_MOVE, RECLAIM
from scheduler_core.state.events import ClusterEvent

# A unit rejected under one of these names may take from other quotas, whatever the priority of their pods.
RECLAIMING: Final = frozenset({WITHIN_MIN, RECLAIM, FAIR_MOVE})

_FIRST: Final = 64
# Bytes of NodesOfKinds; kinds beyond it count as if they could use every node.
MOST_BYTES: Final = 16 * 2**20


class NodesOfKinds:
    """The nodes that pass the STATIC filters per kind of pod, as of its last rejection.

    A node that has changed since counts as passing.
    """

    def __init__(self, changes: ChangeLog) -> None:
        self._changes = changes
        self._seen = changes.position
        self._ok: Bool = np.ones((0, 0), dtype=np.bool_)  # [K, N]
        self._rows: dict[Hashable, int] = {}
        self._known: dict[int, Hashable] = {}
        self._users: dict[int, int] = {}
        self._free: list[int] = []

    def use(self, kind: Hashable) -> int:
        """The row of a kind, for one more class; -1 if the table is full."""
        row = self._rows.get(kind)
        if row is None:
            row = self._free.pop() if self._free else len(self._users)
            if row >= len(self._ok) and not self._grow(row + 1, self._ok.shape[1]):
                return -1
            self._rows[kind] = row
            self._known[row] = None
            self._ok[row] = True
        self._users[row] = self._users.get(row, 0) + 1
        return row

    def drop(self, kind: Hashable, row: int) -> None:
        """Release the row of a kind for one class."""
        self._users[row] -= 1
        if not self._users[row]:
            del self._rows[kind]
            self._free.append(row)

    def learn(self, row: int, version: Hashable, ok: Bool) -> None:
        """Record the nodes that pass the filters, bool [N]; an equal version means equal content."""
        self._follow_changes()
        if self._known.get(row) == version or not self._grow(len(self._ok), len(ok)):
            return
        self._known[row] = version
        self._ok[row] = True
        self._ok[row, : len(ok)] = ok

    def may_use(self, rows: Int64, slot: int) -> Bool:
        """bool [M]: whether the kinds in some rows (-1: unknown) may use a node."""
        self._follow_changes()
        if slot >= self._ok.shape[1] or not len(self._ok):
            return np.ones(len(rows), dtype=np.bool_)
        return self._ok[rows, slot] | (rows < 0)

    def _follow_changes(self) -> None:
        if self._seen == self._changes.position:
            return
        changed = self._changes.since(self._seen)
        self._seen = self._changes.position
        self._known = dict.fromkeys(self._known)
        if changed is None:
            self._ok[:] = True
        else:
            self._ok[:, [slot for slot in changed if slot < self._ok.shape[1]]] = True

    def _grow(self, rows: int, slots: int) -> bool:
        have_rows, have_slots = self._ok.shape
        if rows <= have_rows and slots <= have_slots:
            return True
        rows = max(have_rows, rows if rows <= have_rows else max(_FIRST, 2 * rows))
        slots = have_slots if slots <= have_slots else slots + slots // 4
        if rows * slots > MOST_BYTES:
            return False
        grown: Bool = np.ones((rows, slots), dtype=np.bool_)
        grown[:have_rows, :have_slots] = self._ok
        self._ok = grown
        return True


class WaitingTable:
    """Columns by class [C]: requests [R, C], rejecting plugins, event number, queue place, kind of pod.

    `priorities`: the highest at which a pod may preempt. `namespaces`: ids in the pod table. `gangs`: whether
    the units are gangs. `place`: the
    first two numbers of the sort key of the first unit, a lower bound for all units; -inf if they are not
    numbers.
    """

    def __init__(self, nodes: NodesOfKinds) -> None:
        self.nodes = nodes
        self.requests: Int64 = np.zeros((0, _FIRST), dtype=np.int64)  # [R, C]
        self.closed: Int64 = np.zeros(_FIRST, dtype=np.int64)
        self.waits: Bool = np.zeros(_FIRST, dtype=np.bool_)
        self.kinds: Int64 = np.full(_FIRST, -1, dtype=np.int64)
        self.namespaces: Int64 = np.full(_FIRST, -1, dtype=np.int64)
        self.priorities: Int64 = np.zeros(_FIRST, dtype=np.int64)
        self.reclaims: Bool = np.zeros(_FIRST, dtype=np.bool_)
        self.gangs: Bool = np.zeros(_FIRST, dtype=np.bool_)
        self.place: NDArray[np.float64] = np.zeros((2, _FIRST))
        self._refused: dict[str, Bool] = {}
        self._free = list(range(_FIRST - 1, -1, -1))

    def take_row(self) -> int:
        """Allocate a row for a class that begins to wait."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self.requests[:, row] = 0
        self.closed[row] = 0
        self.waits[row] = False
        self.kinds[row] = -1
        self.reclaims[row] = False
        return row

    def give_back(self, row: int) -> None:
        """Free the row of a class that no longer waits."""
        self.waits[row] = False
        for column in self._refused.values():
            column[row] = False
        self._free.append(row)

    def set_refused(self, row: int, plugins: Iterable[str]) -> None:
        """Record the plugins of the last rejection of a class."""
        for column in self._refused.values():
            column[row] = False
        self.reclaims[row] = not RECLAIMING.isdisjoint(plugins)
        for name in plugins:
            found = self._refused.get(name)
            if found is None:
                found = self._refused[name] = np.zeros(len(self.waits), dtype=np.bool_)
            found[row] = True

    def set_pods(self, row: int, namespace: int, priority: int, vector: Int64) -> None:
        """Record the namespace's id, highest priority and smallest request (int64 [R]) of the pods."""
        self.namespaces[row], self.priorities[row] = namespace, priority
        if len(vector) > len(self.requests):
            more = np.zeros((len(vector) - len(self.requests), self.requests.shape[1]), dtype=np.int64)
            self.requests = np.concatenate([self.requests, more])
        self.requests[:, row] = 0
        self.requests[: len(vector), row] = vector

    def set_place(self, row: int, key: tuple[Any, ...]) -> None:
        """Record the place of the class in the queue."""
        first, second = [*key[:2], 0, 0][:2]
        known = isinstance(first, int | float) and isinstance(second, int | float)
        self.place[:, row] = (first, second) if known else -np.inf

    def outranks(self, namespace: int | None, priority: int) -> bool:
        """Whether pods of a namespace (its id; None: of any) wait that may preempt above this priority."""
        found = self.waits & (self.priorities > priority)
        return bool((found if namespace is None else found & (self.namespaces == namespace)).any())

    def rows_helped(self, plugin: str, room: Room, number: int) -> NDArray[np.intp]:
        """int [M]: rows that a plugin rejected before event `number` and that the room may help."""
        refused = self._refused.get(plugin)
        if refused is None:
            return np.zeros(0, dtype=np.intp)
        rows = np.flatnonzero(refused & self.waits & (self.closed < number))
        if len(rows):
            rows = rows[self._fits(rows, room)]
        if len(rows) and room.slot is not None:
            rows = rows[self.nodes.may_use(self.kinds[rows], room.slot)]
        return rows

    def _fits(self, rows: NDArray[np.intp], room: Room) -> Bool:
        """bool [M]: whether the room, with what evictions may add to it, is enough."""
        bound = min(len(room.free), len(self.requests))
        asked = self.requests[:bound].take(rows, axis=1)
        fits = _is_enough(asked, room.free[:bound, None])
        if room.evictable is not None and np.count_nonzero(fits) < len(fits):
            fits |= self._fits_after_evictions(rows, asked, room.free[:bound, None], room.evictable)
        if room.lowest is not None and np.count_nonzero(fits) < len(fits):
            fits |= self._may_evict_elsewhere(rows, room.lowest)
        return fits

    def _fits_after_evictions(
        self, rows: NDArray[np.intp], asked: Int64, free: Int64, evictable: FindEvictableRequests
    ) -> Bool:
        priorities, reclaims = self.priorities.take(rows), self.reclaims.take(rows)
        found = evictable(int(priorities.max()), bool(reclaims.any()))
        if found is None:
            return np.zeros(len(rows), dtype=np.bool_)
        number = np.searchsorted(found.priorities, priorities)
        # Units that may reclaim may evict pods of others of any priority.
        lower = number.copy()
        number[reclaims] = len(found.priorities)
        held = found.held[: len(asked)].take(number, axis=1)
        if found.namespaces is not None and reclaims.any():
            held -= self._kept_own(rows, lower, reclaims, found, found.namespaces)[: len(asked)]
        return _is_enough(asked, free + held + found.leaving[: len(asked), None])

    def _kept_own(
        self,
        rows: NDArray[np.intp],
        lower: NDArray[np.intp],
        reclaims: Bool,
        found: EvictableRequests,
        namespaces: Int64,
    ) -> Int64:
        """int64 [R, M]: requests of pods of their own namespaces that reclaiming units do not evict: all but
        the first `lower` ones of the node.
        """
        out: Int64 = np.zeros((len(found.held), len(rows)), dtype=np.int64)
        each = np.diff(found.held, axis=1)  # [R, K]
        for number in set(self.namespaces[rows[reclaims]].tolist()):
            own: Int64 = np.zeros_like(found.held)  # [R, K + 1]
            np.cumsum(each * (namespaces == number), axis=1, out=own[:, 1:])
            theirs = np.flatnonzero(reclaims & (self.namespaces[rows] == number))
            out[:, theirs] = own[:, -1:] - own.take(lower[theirs], axis=1)
        return out

    def _may_evict_elsewhere(self, rows: NDArray[np.intp], lowest: Int64) -> Bool:
        priorities = self.priorities.take(rows)
        if priorities.max() <= lowest.min():
            return np.zeros(len(rows), dtype=np.bool_)
        namespaces = self.namespaces.take(rows)
        # No pod of a namespace beyond the known ones holds a node.
        known = (namespaces >= 0) & (namespaces < len(lowest))
        return known & (lowest.take(namespaces, mode="clip") < priorities)

    def within(self, rows: NDArray[np.intp], band: Band) -> NDArray[np.intp]:
        """Of some rows those whose requests are in a band, and those of gangs, whose members are more."""
        bound = min(len(band.most), len(self.requests))
        asked = self.requests[:bound].take(rows, axis=1)
        most, least = band.most[:bound, None], band.least[:bound, None]
        return rows[self.gangs[rows] | (_is_enough(asked, most) & ~_is_enough(asked, least))]

    def foremost(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows with the first place in the queue, as far as the recorded numbers tell."""
        for line in self.place:
            values = line[rows]
            rows = rows[values == values.min()]
        return rows

    def _grow(self) -> None:
        size = len(self.waits)
        self._free = list(range(2 * size - 1, size - 1, -1))
        self.requests = np.concatenate([self.requests, np.zeros_like(self.requests)], axis=1)
        self.closed = np.concatenate([self.closed, np.zeros_like(self.closed)])
        self.waits = np.concatenate([self.waits, np.zeros_like(self.waits)])
        self.kinds = np.concatenate([self.kinds, np.full_like(self.kinds, -1)])
        self.namespaces = np.concatenate([self.namespaces, np.full_like(self.namespaces, -1)])
        self.priorities = np.concatenate([self.priorities, np.zeros_like(self.priorities)])
        self.reclaims = np.concatenate([self.reclaims, np.zeros_like(self.reclaims)])
        self.gangs = np.concatenate([self.gangs, np.zeros_like(self.gangs)])
        self.place = np.concatenate([self.place, np.zeros_like(self.place)], axis=1)
        self._refused = {
            name: np.concatenate([column, np.zeros_like(column)]) for name, column in self._refused.items()
        }


def _is_enough(asked: Int64, free: Int64) -> Bool:
    """bool [M]: whether the request fits; an overcommitted resource counts as having no room."""
    enough: NDArray[np.bool_] = np.all(asked <= np.maximum(free, 0), axis=0)
    return enough


class Concern(NamedTuple):
    """The units that an event can concern among those that one plugin rejected.

    `room` gives the room that is free now, None for events that free no room. `nominated`: uids of pods.
    """

    plugin: str
    reach: Reach
    room: Callable[[], Room | None] | None = None
    nominated: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class FreedRoom:
    """Room freed by event `number`, for all classes that it may help, one after the other while it lasts.

    Of a hundred classes whose next pods fit the room that one pod left, one can start. So only the foremost
    in queue order is tried, then the foremost of those that the rest still helps.
    """

    event: ClusterEvent
    number: int
    plugin: str
    _room: Callable[[], Room | None]
    _excluded: list[int] = field(default_factory=list)

    def exclude(self, row: int) -> None:
        """Do not offer the room to the class of a row again."""
        self._excluded.append(row)

    def rows_helped(self, table: WaitingTable) -> NDArray[np.intp]:
        """int [M]: rows of the classes that it may help now."""
        room = self._room()
        if room is None:
            return np.zeros(0, dtype=np.intp)
        rows = table.rows_helped(self.plugin, room, self.number)
        if self._excluded and len(rows):
            left = np.ones(len(table.waits), dtype=np.bool_)
            left[self._excluded] = False
            rows = rows[left[rows]]
        return rows
