"""Retries waiting units in idle moments, so that their messages describe the cluster as it is.

The message of a waiting unit is that of its last attempt. Events that cannot help the unit do not wake it,
but make the message outdated: fewer nodes, more of the quota in use. When the scheduler is idle the unit with
the oldest attempt is tried once more. A review does not count as an attempt: backoff and retry counts do not
change.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler_core.engine.decisions import Decision
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import Part, QueuedUnit
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.state.gangs.quota_holds import QuotaHolds
from scheduler_core.state.nominations import Nominations
from scheduler_core.state.placed.pods import PodTable
from scheduler_core.state.topology import TopologyTable

# A message stands for this long at least.
REVIEW_AFTER_SECONDS: Final = 5.0
_FEW: Final = 64


class _Tried(NamedTuple):
    """A failed attempt of a unit: its number, its time, and the version of the cluster."""

    unit: QueuedUnit
    number: int
    at: float
    version: int


class WaitingReviews:
    """The waiting units that were tried before the last change of the cluster, oldest attempt first.

    `decide` tries a unit that was taken out of the queue, and puts it back.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        topology: TopologyTable,
        nominations: Nominations,
        holds: QuotaHolds,
        table: PodTable,
        ledger: QuotaLedger,
        decide: Callable[[QueuedUnit, float], list[Decision]],
    ) -> None:
        self._queue = queue
        self._topology = topology
        self._nominations = nominations
        self._holds = holds
        self._table = table
        self._ledger = ledger
        self._followed = self._news
        self._decide = decide
        self.version = 0
        self._tried: deque[_Tried] = deque()
        # The last attempts of units that were woken since, by key: put back untried, they wait as before.
        self._woken: dict[str, _Tried] = {}

    def __len__(self) -> int:
        """The number of entries, of units that wait no longer included."""
        return len(self._tried)

    def changed(self) -> None:
        """Count a change of the cluster that may matter to waiting units."""
        self.version += 1

    def follow(self) -> None:
        """Count a change of nominations, holds of quota that began, and starts of pods that were corrected.

        The first two take room from others. The third is in messages that say when pods may be taken.
        """
        now = self._news
        if now != self._followed:
            before, self._followed = self._followed, now
            if now[:2] != before[:2] or self._age_matters():
                self.changed()

    @property
    def _news(self) -> tuple[int, int, int]:
        return self._nominations.digest, self._holds.begun, self._table.begun

    def _age_matters(self) -> bool:
        """Whether some pods may be taken only once they have run for a time."""
        ledger = self._ledger
        return ledger.borrowing.fair_moves or any(
            quota.sharing.reclaim_min_runtime for quota in ledger.quotas()
        )

    def tried(self, unit: QueuedUnit, now: float) -> None:
        """Record a failed attempt of a unit that now waits for an event."""
        self._tried.append(_Tried(unit, unit.failures, now, self.version))
        if len(self._tried) > 2 * len(self._queue.units) + _FEW:
            every, self._tried = self._tried, deque()
            for item in every:
                if _waits(item):
                    self._tried.append(item)
                else:
                    self._set_aside(item)

    def due(self, after: float = REVIEW_AFTER_SECONDS) -> float | None:
        """When the next review is due; None if all units were tried on the current cluster."""
        oldest = self._oldest()
        return oldest.at + after if oldest is not None else None

    def review(self, now: float, after: float = REVIEW_AFTER_SECONDS) -> list[Decision]:
        """Retry the unit that is due, if any."""
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

    def _set_aside(self, tried: _Tried) -> None:
        """Keep an attempt of a unit that waits no longer, if it is the last one."""
        if _is_last(tried):
            self._woken[tried.unit.key] = tried

    def _take_back(self) -> None:
        """Count the units again that were woken and wait as before."""
        back = [item for item in self._woken.values() if _waits(item)]
        over = {item.unit.key for item in self._woken.values() if not _is_last(item)}
        for key in over.union(item.unit.key for item in back):
            del self._woken[key]
        if back:
            # In the order of versions, as `_oldest` relies on.
            self._tried = deque(sorted([*back, *self._tried], key=lambda item: item.version))

    def _oldest(self) -> _Tried | None:
        if self._woken and not self._queue.has_active():
            self._take_back()
        while self._tried and not _waits(self._tried[0]):
            self._set_aside(self._tried.popleft())
        # Attempts are ordered by version: if the first is current, all are.
        stale = self._tried and self._tried[0].version != self.version
        return self._tried[0] if stale else None


def _is_last(tried: _Tried) -> bool:
    """Whether this was the last attempt of the unit, which has not left."""
    return bool(tried.unit.pods) and tried.unit.failures == tried.number


def _waits(tried: _Tried) -> bool:
    """Whether this was the unit's last attempt, and the unit waits for an event."""
    unit = tried.unit
    return unit.part is Part.UNSCHEDULABLE and unit.entry >= 0 and _is_last(tried)
