"""Looking again at those who wait: what they say must be true of the cluster as it is.

A waiting unit says what its last try found. Events that cannot help it do not wake it, and yet they make
that text untrue: fewer nodes, more of the quota in use. In quiet moments the unit whose last try is oldest is
tried once more. That is no attempt: neither the backoff nor the trials of a group change.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler_core.engine.decisions import Decision
from scheduler_core.engine.queue import SchedulingQueue
from scheduler_core.engine.unit import Part, QueuedUnit
from scheduler_core.state.nominations import Nominations
from scheduler_core.state.topology import TopologyTable

# What is said of a unit stands for so long at least.
REVIEW_AFTER_SECONDS: Final = 5.0
_FEW: Final = 64


class _Tried(NamedTuple):
    """A try that found no node: which of the unit's it was, when, and on which cluster."""

    unit: QueuedUnit
    number: int
    at: float
    version: int


class Reviews:
    """Which waiting units were tried on a cluster that has changed since, the oldest try first.

    `decide` tries a unit that was taken out of the queue, and puts it back.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        topology: TopologyTable,
        nominations: Nominations,
        decide: Callable[[QueuedUnit, float], list[Decision]],
    ) -> None:
        self._queue = queue
        self._topology = topology
        self._nominations = nominations
        self._nominated = nominations.digest
        self._decide = decide
        self.version = 0
        self._tried: deque[_Tried] = deque()

    def changed(self) -> None:
        """Something happened in the cluster that may matter to somebody who waits."""
        self.version += 1

    def heed(self) -> None:
        """A node that is nominated, or not any more, is room that others do not have, or have."""
        if self._nominations.digest != self._nominated:
            self._nominated = self._nominations.digest
            self.changed()

    def tried(self, unit: QueuedUnit, now: float) -> None:
        """A unit found no node and waits for an event."""
        self._tried.append(_Tried(unit, unit.failures, now, self.version))
        if len(self._tried) > 2 * len(self._queue.units) + _FEW:
            self._tried = deque(filter(_waits, self._tried))

    def due(self, after: float = REVIEW_AFTER_SECONDS) -> float | None:
        """When a unit is to be looked at again; None where all were tried on the cluster as it is."""
        oldest = self._oldest()
        return oldest.at + after if oldest is not None else None

    def review(self, now: float, after: float = REVIEW_AFTER_SECONDS) -> list[Decision]:
        """Try the unit that is due, if one is."""
        oldest = self._oldest()
        if oldest is None or oldest.at + after > now:
            return []
        unit = oldest.unit
        run = self._topology.runs.get(unit.key)
        trials = Counter(run.trials) if run is not None else None
        failed_at = unit.failed_at
        self._queue.take(unit)
        decisions = self._decide(unit, now)
        if unit.part is Part.UNSCHEDULABLE:
            unit.failed_at = failed_at
            if run is not None and trials is not None:
                run.trials = trials
        return decisions

    def _oldest(self) -> _Tried | None:
        while self._tried and not _waits(self._tried[0]):
            self._tried.popleft()
        # Tries are in the order of their versions, so that behind a recent one there are only recent ones.
        stale = self._tried and self._tried[0].version != self.version
        return self._tried[0] if stale else None


def _waits(tried: _Tried) -> bool:
    """Whether that was the unit's last try, and it waits for an event."""
    unit = tried.unit
    return unit.part is Part.UNSCHEDULABLE and unit.entry >= 0 and unit.failures == tried.number
