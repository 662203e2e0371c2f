"""The history of quotas as the console reads it: at most once a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.quota_history import HistoryRead, read_days
from kubectl_plugin.cluster.reclaim_history import (
    EventHistory,
    HistorySource,
    LeaderHistory,
    StatusHistory,
    history_of,
)
from scheduler_core.answers.history import Reclaim
from scheduler_core.answers.showback import Period
from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client

HOLDS_SECONDS: Final = 60.0
_MOST: Final = 8


class PastRead(msgspec.Struct, frozen=True):
    """What is known of a period: sums by day, reclaims, and what could not be read.

    `serial` grows with every reading.
    """

    period: Period
    read: HistoryRead
    reclaims: tuple[Reclaim, ...]
    lacks: tuple[str, ...]


class HistoryReader:
    """Reads periods that end now. Thread-safe.

    `scope` is the namespace whose reclaims may be read; empty for all. `events`: Events are read, too.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        scope: str,
        *,
        events: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._scope = scope
        self._events = events
        self._monotonic = monotonic
        # One reads at a time. The other lock is for what is known.
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._known: dict[float, tuple[float, PastRead]] = {}
        self.serial = 0

    def past(self, seconds: float) -> PastRead:
        """What is known of the last seconds, as of a minute ago at most.

        While somebody reads it anew, others get what was known before. Who asks first waits.
        """
        known, current = self._kept(seconds)
        if known is None:
            self._reading.acquire()
        elif current or not self._reading.acquire(blocking=False):
            return known
        try:
            known, current = self._kept(seconds)
            if known is not None and current:
                return known
            found = self._read(seconds)
            with self._lock:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[seconds] = self._monotonic(), found
                self.serial += 1
            return found
        finally:
            self._reading.release()

    def _kept(self, seconds: float) -> tuple[PastRead | None, bool]:
        """What was read last, and whether that is recent enough."""
        with self._lock:
            asked, known = self._known.get(seconds, (0.0, None))
        return known, known is not None and self._monotonic() - asked < HOLDS_SECONDS

    def age(self) -> float:
        """Grows every minute: what is shown may be read again then."""
        return self._monotonic() // HOLDS_SECONDS

    def _read(self, seconds: float) -> PastRead:
        period = Period.back(time.time(), seconds)
        lacks: list[str] = []
        read = HistoryRead()
        try:
            read = read_days(self._client, period, self._namespace)
        except MusterError as error:
            lacks.append(str(error))
        lacks += [str(error) for error in read.broken]
        notes = Notes(lacks)
        reclaims: list[Reclaim] = []
        sources: list[HistorySource] = [LeaderHistory(read.days), StatusHistory(self._client, notes)]
        if self._events:
            sources.append(EventHistory(self._client, notes))
        try:
            reclaims = history_of(sources, self._scope, period.since)
        except MusterError as error:
            lacks.append(str(error))
        return PastRead(period, read, tuple(reclaims), tuple(lacks))


class Notes(Diagnostics):
    """Collects what a command would print on stderr."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def note(self, text: str) -> None:
        """Keep a line."""
        self._lines.append(text.removeprefix("note: "))
