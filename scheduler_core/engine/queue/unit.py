"""Units of the scheduling queue (a single pod or a gang), and the classes in which equivalent units wait."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.queue.waiting_table import FreedRoom
from scheduler_core.engine.scores.signature import signature
from scheduler_core.framework.queueing.neighbour_terms import NeighbourTerm
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.events import ClusterEvent

# Stale heap entries are dropped once the heaps have twice as many entries as units, plus this.
_FEW: Final = 64
# Events that a class remembers; after more of them it is tried unconditionally.
_MOST_EVENTS: Final = 8
_NOTHING: Final[Int64] = np.zeros(0, dtype=np.int64)
Entry = tuple[Any, int, str]


class Part(StrEnum):
    """The part of the queue that a unit is in."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    ASKED = "asked"


@dataclass(slots=True, eq=False)
class QueuedUnit:
    """A single pod or a gang. `came`: when its first pod was added. `since`: its first failure, or None."""

    key: str
    created: float
    gang: bool = False
    came: float = field(default=0.0, kw_only=True)
    gang_priority: int | None = None
    since: float | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    part: Part = Part.GATED
    attempts: int = 0
    failed_at: float = 0.0
    # Failed attempts, including those of reviews.
    failures: int = 0
    # When it is tried without an event, as its last attempt asked for; infinite if never.
    due: float = math.inf
    entered: float = 0.0
    entry: int = -1
    # Cache of `distinct`; cleared when a pod is added, changed or removed.
    kinds: dict[Hashable, Pod] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()
    # The class in which it waits, or that it represents while it is tried.
    waits_in: WaitingClass | None = None
    stands_for: WaitingClass | None = None

    @property
    def namespace(self) -> str:
        """The namespace of its pods; empty if it has none."""
        return next((pod.namespace for pod in self.pods.values()), "")

    def distinct(self) -> Iterable[Pod]:
        """One pod per scheduling signature."""
        if len(self.pods) == 1:
            return self.pods.values()
        if not self.kinds:
            self.kinds = {signature(pod, labels_matter=True): pod for pod in self.pods.values()}
        return self.kinds.values()

    @property
    def priority(self) -> int:
        """The group's own priority where it has one, else the highest of its pods."""
        if self.gang_priority is not None:
            return self.gang_priority
        return max((pod.priority for pod in self.pods.values()), default=0)


class Traits(NamedTuple):
    """The properties by which units wait and are found: units with an equal `key` wait as one class.

    `namespace` and `group` (the PodGroup's key) are those of the pods. `number`: the namespace's id in the
    pod table, -1 for none. `priority`: the highest at which a pod may preempt. `requests`: int64 [R], the
    smallest request per resource. `kind`: the static signature of the pods, None where they differ. `gang`:
    whether the units are gangs. `terms`: what their rules about other pods select.
    """

    key: Hashable
    namespace: str = ""
    group: str = ""
    number: int = -1
    priority: int = 0
    requests: Int64 = _NOTHING
    kind: Hashable = None
    gang: bool = False
    terms: tuple[NeighbourTerm, ...] = ()


def alone(unit: QueuedUnit) -> Traits:
    """Traits that make each unit a class of its own."""
    return Traits(unit.key)


@dataclass(slots=True, eq=False)
class WaitingClass:
    """Equivalent units rejected by the same `plugins`.

    `representative`: the unit that is being tried for the class, or None. `opened_by`: the events that opened
    the class and count while they still may help; None: try unconditionally. `freed_rooms`: room attached to
    the class, which goes on to other classes after the attempt.
    """

    traits: Traits
    row: int
    plugins: frozenset[str] = frozenset()
    units: dict[str, QueuedUnit] = field(default_factory=dict)
    representative: QueuedUnit | None = None
    opened_by: list[ClusterEvent] | None = field(default_factory=list)
    freed_rooms: list[FreedRoom] = field(default_factory=list)
    tried_at: float = 0.0
    # The number of its last attempt among those of all classes.
    turn: int = 0
    # The sort key of the first unit, or an earlier one; after all others while every unit is in backoff.
    place: tuple[bool, Any] = (True, ())
    # The last rejection (queue.known_refusals.KnownRefusal), for units that join.
    known_refusal: Any = None
    # Units in backoff by its end, and units whose backoff is over in queue order.
    _resting: list[Entry] = field(default_factory=list)
    _ready: list[Entry] = field(default_factory=list)

    def sample(self) -> QueuedUnit:
        """Any unit: all are equivalent. Raises StopIteration if there is none."""
        found = self.representative if self.representative is not None else next(iter(self.units.values()))
        # Its own last rejection may be older than that of the class.
        found.plugins = self.plugins
        return found

    @property
    def is_empty(self) -> bool:
        """Whether the class has no waiting unit and no representative."""
        return not self.units and self.representative is None

    @property
    def is_unconditional(self) -> bool:
        """Whether its only unit is about to be tried unconditionally."""
        return self.opened_by is None and self.representative is not None and not self.units

    @property
    def is_open(self) -> bool:
        """Whether an event since the last rejection makes the class worth another attempt."""
        return self.opened_by is None or bool(self.opened_by)

    def add(self, unit: QueuedUnit, ready_at: float) -> None:
        """Add a unit whose backoff ends at `ready_at`."""
        self.units[unit.key] = unit
        heapq.heappush(self._resting, (ready_at, unit.entry, unit.key))
        if len(self._resting) + len(self._ready) > 2 * len(self.units) + _FEW:
            self._forget_left_units()

    def finish_backoffs(self, now: float, order: Any) -> None:
        """Move units whose backoff is over to the sorted heap. `order` gives the sort key of a unit."""
        while self._resting and self._resting[0][0] <= now:
            entry = heapq.heappop(self._resting)
            if self._waits(entry):
                heapq.heappush(self._ready, (order(self.units[entry[2]]), entry[1], entry[2]))

    def first_ready(self) -> tuple[Any, QueuedUnit] | None:
        """(sort key, unit) of the first unit whose backoff is over, or None."""
        while self._ready and not self._waits(self._ready[0]):
            heapq.heappop(self._ready)
        return (self._ready[0][0], self.units[self._ready[0][2]]) if self._ready else None

    def first(self) -> QueuedUnit | None:
        """The unit to try next, or None if no unit waits."""
        found = self.first_ready()
        if found is not None:
            return found[1]
        while self._resting and not self._waits(self._resting[0]):
            heapq.heappop(self._resting)
        return self.units[self._resting[0][2]] if self._resting else None

    def forget(self, unit: QueuedUnit) -> None:
        """Drop a unit's entries after its sort key changed; the caller adds it again."""
        self._ready = [entry for entry in self._ready if entry[2] != unit.key]
        heapq.heapify(self._ready)

    def open(self, event: ClusterEvent | None) -> None:
        """Make the class worth an attempt while `event` may help, or unconditionally if it is None."""
        if event is None or self.opened_by is None or len(self.opened_by) >= _MOST_EVENTS:
            self.opened_by = None
        else:
            self.opened_by.append(event)

    def _waits(self, entry: Entry) -> bool:
        unit = self.units.get(entry[2])
        return unit is not None and unit.entry == entry[1]

    def _forget_left_units(self) -> None:
        self._resting = [entry for entry in self._resting if self._waits(entry)]
        self._ready = [entry for entry in self._ready if self._waits(entry)]
        heapq.heapify(self._resting)
        heapq.heapify(self._ready)
