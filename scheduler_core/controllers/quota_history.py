"""Keeps the history of quotas: what each used, borrowed, lent and waited for, hour by hour (docs/history.md).

It counts while this process leads. One ConfigMap per UTC day holds the sums; it is written at the start,
every five minutes, when the day ends, and when the process ends. The watch shows what is stored, so a new
leader goes on from there, and a refused or unanswered write is repeated from what is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final, Protocol

from scheduler_core.controllers.displacement_notices import taken_amounts
from scheduler_core.controllers.events import reference, warning
from scheduler_core.controllers.history_day_file import WRITE_SECONDS, HistoryDayFile
from scheduler_core.model.config_map import HISTORY
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import REASON_INVALID_HISTORY
from scheduler_core.model.quotas.quota_history import (
    MOST_PODS,
    QuotaEviction,
    day_of,
    day_of_name,
    name_of,
    start_of,
)
from scheduler_core.model.resources import ResourceList
from scheduler_core.model.writes import Create, Delete, Write
from scheduler_core.quota.history_counter import DayColumns, HistoryCounter, midnight_after, rates_of
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.displacements import Displacement

KEPT_DAYS: Final = 35
# The cluster counts as observed between two turns of the controllers that are no further apart.
MOST_GAP_SECONDS: Final = 60.0
_SWEEP_SECONDS: Final = 3600.0


class WaitingWork(Protocol):
    """What the pods that wait for a node ask for. `version` changes with it."""

    version: int

    @property
    def by_namespace(self) -> Mapping[str, ResourceList]: ...


class QuotaHistory:
    """The history in ConfigMaps of `namespace`; `identity` names this process."""

    def __init__(self, state: ClusterState, waiting: WaitingWork, namespace: str, identity: str) -> None:
        self.counter = HistoryCounter(self._columns)
        self._waiting = waiting
        self._namespace = namespace
        self._identity = identity
        self._displaced = state.displacements.follow()
        self._files: dict[date, HistoryDayFile] = {}
        self._today: date | None = None
        self._seen = 0.0
        # The versions of what was last taken in, and in which second.
        self._counted: tuple[int, int] | None = None
        self._counted_at = 0
        self._swept = float("-inf")
        self._now = 0.0

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Count what has changed; the writes that are due."""
        self._now = now
        second = int(now)
        if self._today is not None and now - self._seen > MOST_GAP_SECONDS:
            # Nobody knows what happened meanwhile.
            self.counter.pause(int(self._seen))
            self._counted = None
        self._seen = now
        self._turn_to(day_of(second), second)
        self._look(state, second, now)
        self._count(state, second)
        self._note_evictions(state, second)
        return [*self._due(now), *self._problems(now), *self._expired(state, now)]

    def next_time(self, state: ClusterState) -> float | None:
        """When a write is due, or changes of the last second can be counted."""
        times = [file.next_write for file in self._files.values()]
        if self._counted != self._versions(state):
            times.append(self._counted_at + 1.0)
        return min(times, default=None)

    def last_writes(self, state: ClusterState, now: float) -> list[Write]:
        """The writes of what is not stored, for a process that ends."""
        self._look(state, int(now), now)
        self.counter.settle(int(now))
        return [
            write for file in self._files.values() if not file.settled if (write := self._write(file, now))
        ]

    def totals(self, now: float) -> dict[tuple[str, str, str], int]:
        """The sums since the start of this process, by namespace, resource and kind."""
        self.counter.settle(int(now) if now - self._seen <= MOST_GAP_SECONDS else int(self._seen))
        return dict(self.counter.totals)

    # Counting

    def _columns(self, day: date) -> DayColumns:
        file = self._open(day, start_of(day))
        file.touched = True
        return file.columns

    def _open(self, day: date, start: int) -> HistoryDayFile:
        file = self._files.get(day)
        if file is None:
            file = HistoryDayFile(self._namespace, day, start, self._identity, self._now)
            self._files[day] = file
        return file

    def _turn_to(self, day: date, second: int) -> None:
        """Open the day, and go on counting in it."""
        counter, before = self.counter, self._today
        if before is not None and day != before:
            if counter.at is not None:
                counter.settle(midnight_after(before) if day > before else counter.at)
                self._open(before, second).reach(counter.at)
            if day < before:
                # The clock went back beyond midnight: what was counted of this day stands.
                counter.pause(second)
            for other in self._files.values():
                other.next_write = self._now
        self._today = day
        if counter.at is None:
            file = self._files.get(day)
            start = second if file is None else max(second, file.until)
            self._open(day, start)
            counter.resume(start)
            self._counted = None
        else:
            self._open(day, start_of(day))

    def _count(self, state: ClusterState, second: int) -> None:
        """Take in changes, at most once a second."""
        versions = self._versions(state)
        fresh = self._counted is None
        if versions == self._counted or not (fresh or second > self._counted_at):
            return
        rates = rates_of(state.ledger, self._waiting.by_namespace)
        self.counter.change(rates, second)
        self._counted, self._counted_at = versions, second
        if fresh and rates and self._today is not None:
            self._files[self._today].touched = True

    def _versions(self, state: ClusterState) -> tuple[int, int]:
        return state.ledger.version, self._waiting.version

    def _look(self, state: ClusterState, second: int, now: float) -> None:
        """Take in what is stored."""
        for day, file in list(self._files.items()):
            found = state.config_maps.get(f"{self._namespace}/{name_of(day)}")
            if found is file.stored:
                continue
            self.counter.settle(second)
            again = file.see(found, second, now)
            if again is not None and day == self._today:
                self.counter.resume(again)
                self._counted = None

    def _note_evictions(self, state: ClusterState, second: int) -> None:
        for found in self._displaced:
            self._open(day_of(second), second).note(_eviction(state, found, second))
        self._displaced.clear()

    # Writes

    def _due(self, now: float) -> list[Write]:
        writes: list[Write] = []
        for day, file in list(self._files.items()):
            # A clock that went back must not delay a write.
            if not now < file.next_write <= now + WRITE_SECONDS:
                if day == self._today:
                    self.counter.settle(int(now))
                if file.tick(now) and (write := self._write(file, now)) is not None:
                    writes.append(write)
            if day != self._today and file.settled:
                del self._files[day]
        return writes

    def _write(self, file: HistoryDayFile, now: float) -> Write | None:
        return file.write(self.counter.at or int(self._seen), now)

    def _problems(self, now: float) -> list[Create]:
        """A Warning Event for each problem."""
        events = []
        for file in self._files.values():
            for text in file.problems:
                stored = file.stored
                uid, version = (stored.uid, stored.resource_version) if stored is not None else ("", "")
                about = reference(CONFIG_MAPS, self._namespace, name_of(file.day), uid)
                note = f"ConfigMap {self._namespace}/{name_of(file.day)}: {text}"
                events.append(warning(about, REASON_INVALID_HISTORY, note, f"{uid} {version} {text}", now))
            file.problems.clear()
        return events

    def _expired(self, state: ClusterState, now: float) -> list[Delete]:
        """The deletion of days that are too old, once an hour."""
        if self._today is None or 0 <= now - self._swept < _SWEEP_SECONDS:
            return []
        self._swept = now
        oldest = self._today - timedelta(days=KEPT_DAYS)
        return [
            Delete(CONFIG_MAPS, found.namespace, found.name, uid=found.uid)
            for found in state.config_maps.with_role(HISTORY)
            if (day := day_of_name(found.name)) is not None and day < oldest
        ]


def _eviction(state: ClusterState, found: Displacement, second: int) -> QuotaEviction:
    namespace = found.victims[0].namespace
    quota = found.quota or state.ledger.quota_of(namespace)
    return QuotaEviction(
        second,
        namespace,
        found.quota.key if found.quota is not None else "",
        found.by,
        found.by_quota,
        taken_amounts(state.ledger, quota, found.victims) if quota is not None else {},
        tuple(sorted(pod.name for pod in found.victims)[:MOST_PODS]),
        len(found.victims),
    )
