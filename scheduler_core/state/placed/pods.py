"""Table of placed pods as columns, so that preemption evaluates all of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.growth import longer
from scheduler_core.arrays.intern import Interner
from scheduler_core.arrays.types import Bool, Float, Int32, Int64
from scheduler_core.model.pods.checkpoint import checkpointed_at
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.placed.grid import EMPTY, PodGrid
from scheduler_core.state.placed.levels import Levels
from scheduler_core.state.placed.lost_work import shared_out

# Later than every start, in seconds since the epoch; finite, so that it can be added up.
_AFTER_ALL: Final = 2.0**40
_OWN_PRIORITY: Final[Callable[[Pod], int]] = attrgetter("priority")


class _Cells(NamedTuple):
    """Memoryviews of the columns: several times faster than indexing an array for single numbers."""

    slot: memoryview[Any]
    priority: memoryview[Any]
    rank: memoryview[Any]
    start: memoryview[Any]
    since: memoryview[Any]
    saved: memoryview[Any]
    lasts: memoryview[Any]
    namespace: memoryview[Any]
    alive: memoryview[Any]
    ending: memoryview[Any]
    leaving: memoryview[Any]
    late: memoryview[Any]


class PodTable:
    """One row per placed pod; rows are reused. Arrays may be longer than `size`; dead rows are not `alive`.

    `slot` is the node's slot, `start` the pod's start in seconds (the time of placement if unknown),
    `begun` how often a start was corrected, `saved` the time from which on its work would be lost: its start,
    or its last checkpoint if that is later. `since` is the time by which victims are chosen: of pods of equal
    namespace and priority the same times as `start`, shared out by `saved` (`lost_work.py`).
    `checkpoints` tells whether any pod had one. `lasts` is the seconds that a pod may run (infinity without a
    limit). `ending` marks pods that are terminating or whose eviction was decided, `leaving` those of them
    that leave within the limit (`departures.py`): others may wait for these. `late` marks pods that end later
    but would not if evicted: a second deletion gives them less time. `priority` is what
    `priority_of` gives: the pod's own, or that of its native group. `rank` is what a pod means to its gang:
    of pods of equal priority those of lower rank are evicted first.
    `ranked` tells whether any pod had a rank.
    """

    def __init__(self, resources: int, priority_of: Callable[[Pod], int] = _OWN_PRIORITY) -> None:
        self._priority_of = priority_of
        capacity = 64
        self.requests: Int64 = np.zeros((resources, capacity), dtype=np.int64)  # [R, capacity]
        self.slot: Int32 = np.full(capacity, -1, dtype=np.int32)  # [capacity]
        self.priority: Int64 = np.zeros(capacity, dtype=np.int64)  # [capacity]
        self.rank: Int64 = np.zeros(capacity, dtype=np.int64)  # [capacity]
        self.ranked = False
        self.start: Float = np.zeros(capacity, dtype=np.float64)  # [capacity]
        self.begun = 0
        self.since: Float = np.zeros(capacity, dtype=np.float64)  # [capacity]
        self.saved: Float = np.zeros(capacity, dtype=np.float64)  # [capacity]
        self.checkpoints = False
        # Namespaces (ids) of which some pod told of a checkpoint, and those in which `since` has to be shared
        # out anew.
        self._sharing: set[int] = set()
        self._unshared: set[int] = set()
        self.lasts: Float = np.full(capacity, np.inf, dtype=np.float64)  # [capacity]
        self.namespace: Int32 = np.full(capacity, -1, dtype=np.int32)  # [capacity]
        self.alive: Bool = np.zeros(capacity, dtype=np.bool_)  # [capacity]
        self.ending: Bool = np.zeros(capacity, dtype=np.bool_)  # [capacity]
        self.leaving: Bool = np.zeros(capacity, dtype=np.bool_)  # [capacity]
        self.late: Bool = np.zeros(capacity, dtype=np.bool_)  # [capacity]
        self.pods: list[Pod | None] = []
        self.grid = PodGrid()
        self.namespaces: Interner[str] = Interner()
        self.levels = Levels()
        self._free: dict[int, None] = {}
        self._order: NDArray[np.int64] | None = None
        self._cells = self._by_cell()

    def _by_cell(self) -> _Cells:
        return _Cells._make(getattr(self, name).data for name in _Cells._fields)

    @property
    def size(self) -> int:
        """Number of rows that arrays must be read over."""
        return len(self.pods)

    def add(self, pod: Pod, slot: int, vector: Int64, now: float) -> int:
        """Take a row for a placed pod; returns it."""
        self._order = None
        if self._free:
            row, _ = self._free.popitem()
        else:
            row = len(self.pods)
            if row == len(self.alive):
                self._grow(2 * row)
            self.pods.append(None)
        self._fill(row, pod, slot, vector)
        self._cells.rank[row] = 0
        self._begin(row, pod, pod.start_time if pod.start_time is not None else now)
        return row

    def _begin(self, row: int, pod: Pod, start: float) -> None:
        cells, saved = self._cells, checkpointed_at(pod.annotations)
        if saved is not None:
            self.checkpoints = True
            self._sharing.add(cells.namespace[row])
        if cells.namespace[row] in self._sharing:
            self._unshared.add(cells.namespace[row])
        cells.start[row], cells.saved[row] = start, start if saved is None else max(start, saved)
        # The work of one that ends late is lost anyhow: it goes before others that mean as much.
        cells.since[row] = _AFTER_ALL if cells.late[row] else start

    def share_out(self) -> None:
        """Bring `since` up to date before victims are chosen, where pods tell of checkpoints and changed."""
        for namespace in self._unshared:
            rows = np.flatnonzero((self.namespace[: self.size] == namespace) & self.alive[: self.size])
            rows = rows[~self.late[rows]]
            since = shared_out(self.start[rows], self.saved[rows], self.priority[rows], list(self.of(rows)))
            changed = since != self.since[rows]
            self.since[rows] = since
            for row in rows[changed].tolist():
                self._order = None
                self.grid.touch(row, self._cells.slot[row])
        self._unshared.clear()

    def add_all(self, pods: Sequence[Pod], slots: Int32, requests: Int64) -> int:
        """Take consecutive rows for pods that stay on their nodes, `requests` [R, P]; returns the first."""
        first, end = len(self.pods), len(self.pods) + len(pods)
        self._order = None
        if end > len(self.alive):
            self._grow(max(end, 2 * len(self.alive)))
        self.cover(len(requests))
        self.pods.extend(pods)
        priorities = [self._priority_of(pod) for pod in pods]
        namespaces = [self.namespaces.id(pod.namespace) for pod in pods]
        rows = slice(first, end)
        self.requests[: len(requests), rows] = requests
        self.requests[len(requests) :, rows] = 0
        self.slot[rows], self.priority[rows], self.namespace[rows] = slots, priorities, namespaces
        self.rank[rows], self.alive[rows] = 0, True
        self.ending[rows] = self.leaving[rows] = self.late[rows] = False
        for row, pod in enumerate(pods, first):
            self._begin(row, pod, pod.created if pod.start_time is None else pod.start_time)
        self.lasts[rows] = [inf if pod.lasts is None else pod.lasts for pod in pods]
        for (namespace, priority), count in Counter(zip(namespaces, priorities, strict=True)).items():
            self.levels.add(namespace, priority, count)
        self.grid.touch_all(range(first, end), slots.tolist())
        return first

    def put_back(
        self, row: int, pod: Pod, slot: int, vector: Int64, start: float, rank: int = 0, since: float = 0.0
    ) -> None:
        """Undo `remove`: the pod takes its old row again, so that nothing else changes."""
        del self._free[row]
        before = (self.priority[row], self.since[row], self.rank[row])
        self._fill(row, pod, slot, vector)
        self._begin(row, pod, start)
        self.rank[row], self.since[row] = rank, since
        if before != (self.priority[row], self.since[row], rank):
            # Another pod used the row meanwhile, and the cached order may be by its values.
            self._order = None

    def put_late(self, row: int, late: bool) -> None:
        """The pod ends later than the limit but can end sooner, or no longer so."""
        pod = self.pods[row]
        if self._cells.late[row] != late and pod is not None:
            self._cells.late[row] = late
            self._begin(row, pod, self._cells.start[row])
            self._order = None
            self.grid.touch(row, self._cells.slot[row])

    def put_rank(self, row: int, rank: int) -> None:
        """What the pod means to its gang changed."""
        if self._cells.rank[row] != rank:
            self._cells.rank[row] = rank
            self.ranked, self._order = True, None
            self.grid.touch(row, self._cells.slot[row])

    def _fill(self, row: int, pod: Pod, slot: int, vector: Int64) -> None:
        self.pods[row] = pod
        if len(vector) > len(self.requests):
            self.cover(len(vector))
        self.requests[: len(vector), row] = vector
        if len(vector) < len(self.requests):
            self.requests[len(vector) :, row] = 0
        cells, priority = self._cells, self._priority_of(pod)
        cells.slot[row], cells.priority[row] = slot, priority
        namespace = cells.namespace[row] = self.namespaces.id(pod.namespace)
        self.levels.add(namespace, priority)
        cells.lasts[row] = inf if pod.lasts is None else pod.lasts
        cells.alive[row], cells.ending[row] = True, pod.terminating
        cells.leaving[row] = cells.late[row] = False
        self.grid.touch(row, slot)

    def refresh(self, row: int, pod: Pod) -> None:
        """The pod changed: its start, checkpoint, priority or deletion may differ."""
        self.pods[row] = pod
        cells, priority = self._cells, self._priority_of(pod)
        start = cells.start[row] if pod.start_time is None else pod.start_time
        before = (cells.priority[row], cells.start[row], cells.since[row])
        self.begun += start != before[1]
        self._begin(row, pod, start)
        if before != (priority, start, cells.since[row]):
            self.levels.remove(cells.namespace[row], cells.priority[row])
            self.levels.add(cells.namespace[row], priority)
            cells.priority[row] = priority
            self._order = None
            self.grid.touch(row, cells.slot[row])
        if pod.terminating:
            cells.ending[row] = True

    def remove(self, row: int) -> None:
        """Give a row back."""
        self.alive[row] = False
        self.pods[row] = None
        self.levels.remove(self._cells.namespace[row], self._cells.priority[row])
        self.grid.touch(row, int(self.slot[row]))
        self._free[row] = None
        if self._cells.namespace[row] in self._sharing:
            self._unshared.add(self._cells.namespace[row])

    def removal_order(self, chosen: Bool) -> NDArray[np.int64]:
        """Rows where `chosen` (bool [rows]) holds, least important first: priority, rank, least lost work.

        Rows beyond the length of `chosen` are not included.
        """
        if self._order is None:
            # As `by_importance` of all rows: the sort is stable, so equal rows stay in ascending order.
            self._order = np.lexsort([key[: self.size] for key in self._keys()])
        known: Bool = np.zeros(self.size, dtype=np.bool_)  # [size]
        known[: len(chosen)] = chosen
        return self._order[known[self._order]]

    def by_importance(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows in ascending importance: lowest priority, lowest rank, least lost work, lowest row."""
        return rows[np.lexsort([rows, *(key[rows] for key in self._keys())])]

    def _keys(self) -> list[NDArray[Any]]:
        """The columns that tell what is less important, the last one compared first."""
        ranks = [self.rank] if self.ranked else []
        return [-self.since, *ranks, self.priority]

    def leaving_pods(self) -> list[Pod]:
        """Pods that end within the limit: they terminate, or their eviction was decided."""
        return list(self.of(np.flatnonzero(self.leaving[: self.size] & self.alive[: self.size])))

    def evicted_for(self) -> dict[str, set[str]]:
        """Evicted leaving pods (uids), by the names of the preemptor and of its group, or by their uids."""
        found: dict[str, set[str]] = {}
        for pod in self.leaving_pods():
            for name in pod.preemptors:
                found.setdefault(name, set()).add(pod.uid)
        return found

    def leaving_requests(self, slots: int) -> Int64:
        """int64 [R, slots]: requests of leaving pods on every node."""
        held: Int64 = np.zeros((len(self.requests), slots), dtype=np.int64)  # [R, slots]
        rows = np.flatnonzero(self.leaving[: self.size] & self.alive[: self.size])
        if len(rows):
            at = self.slot[rows]
            for row in range(len(held)):
                np.add.at(held[row], at, self.requests[row, rows])
        return held

    def _grow(self, capacity: int) -> None:
        for name in ("requests", *_Cells._fields):
            setattr(self, name, longer(getattr(self, name), capacity))
        self._cells = self._by_cell()

    def cover(self, resources: int) -> None:
        """Extend `requests` to this number of resources."""
        missing = resources - self.requests.shape[0]
        if missing <= 0:
            return
        rows: Int64 = np.zeros((missing, self.requests.shape[1]), dtype=np.int64)  # [new, capacity]
        self.requests = np.vstack([self.requests, rows])

    def check(self, slots: int) -> list[str]:
        """Broken invariants in words: the grid agrees with the rows for every node."""
        grid = self.grid.rows(self, slots)
        rows = self.by_importance(np.flatnonzero(self.alive[: self.size]))
        return [
            f"the grid's pods in slot {slot} are {known}, the table's {here}"
            for slot in range(slots)
            if (known := [row for row in grid[:, slot].tolist() if row != EMPTY])
            != (here := rows[self.slot[rows] == slot].tolist())
        ]

    def of(self, rows: NDArray[np.signedinteger]) -> Iterator[Pod]:
        """The pods of some rows, in their order."""
        for row in rows:
            pod = self.pods[int(row)]
            if pod is not None:
                yield pod
