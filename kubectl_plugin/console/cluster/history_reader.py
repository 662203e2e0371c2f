"""The history of quotas as the console reads it: at most once a minute, and soon again after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec

from kubectl_plugin.cli.errors import describe
from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.quota_history import HistoryDenied, HistoryRead, read_days
from kubectl_plugin.cluster.reading import kind_name
from kubectl_plugin.cluster.reclaim_history import (
    EventHistory,
    HistorySource,
    LeaderHistory,
    StatusHistory,
    history_of,
)
from scheduler_core.answers.history import Reclaim
from scheduler_core.answers.showback import Period
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, Forbidden
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.timestamps import format_time

HOLDS_SECONDS: Final = 60.0
# A server that did not answer may do so in a moment, and rights are given while somebody waits.
RETRY_SECONDS: Final = 5.0
_MOST: Final = 8
_QUOTAS_DENIED: Final = (
    "the last reclaim of each quota, and the prices in its annotation, are not known: "
    f"they need the right to list {kind_name(ELASTIC_QUOTAS)}"
)


class Gap(msgspec.Struct, frozen=True):
    """Something that is not known: why, in words, and whether for want of a right, an answer, or sense in it.

    `of_use`: sums are missing, so that what is zero may be anything; else only reclaims are.
    `stale`: it tells of when that is which is shown instead.
    """

    problem: str
    cause: Literal["right", "outage", "damage"]
    of_use: bool = False
    stale: bool = False

    @property
    def brief(self) -> bool:
        """Whether it is worth to look again soon."""
        return self.cause == "outage" or (self.of_use and self.cause == "right")


class PastRead(msgspec.Struct, frozen=True):
    """What is known of a period: sums by day, reclaims, and what could not be read."""

    period: Period
    read: HistoryRead
    reclaims: tuple[Reclaim, ...]
    gaps: tuple[Gap, ...]

    @property
    def brief(self) -> bool:
        """Whether it is worth to read it again soon."""
        return any(gap.brief for gap in self.gaps)

    @property
    def use_gap(self) -> Gap | None:
        """Why sums are missing; None where all that was measured is known."""
        return next((gap for gap in self.gaps if gap.of_use), None)


class _Held(msgspec.Struct, frozen=True):
    """When a period was read, what is told of it, and the last reading that succeeded."""

    asked: float
    told: PastRead
    good: PastRead | None


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
        self._known: dict[float, _Held] = {}
        self.serial = 0

    def past(self, seconds: float) -> PastRead:
        """What is known of the last seconds, as of a minute ago at most; older where the server is away.

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
            found = self.read(seconds)
            with self._lock:
                held = _held(self._monotonic(), found, self._known.get(seconds))
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[seconds] = held
                self.serial += 1
            return held.told
        finally:
            self._reading.release()

    def _kept(self, seconds: float) -> tuple[PastRead | None, bool]:
        """What was read last, and whether that is recent enough."""
        with self._lock:
            held = self._known.get(seconds)
        if held is None:
            return None, False
        holds = RETRY_SECONDS if held.told.brief else HOLDS_SECONDS
        return held.told, self._monotonic() - held.asked < holds

    def age(self) -> float:
        """Grows every minute: what is shown may be read again then."""
        return self._monotonic() // HOLDS_SECONDS

    def read(self, seconds: float) -> PastRead:
        """The history of the last `seconds` from the API server, and what of it could not be read."""
        period = Period.back(time.time(), seconds)
        try:
            read = read_days(self._client, period, self._namespace)
        except HistoryDenied as error:
            read, gaps = HistoryRead(), [Gap(str(error), "right", of_use=True)]
        except MusterError as error:
            # Whoever waits for this answer would wait once more for each of the other lists.
            problem = f"the history cannot be read now: {describe(error)}"
            return PastRead(period, HistoryRead(), (), (Gap(problem, "outage", of_use=True),))
        else:
            gaps = [Gap(str(error), "damage", of_use=True) for error in read.broken]
        notes = Notes(gaps)
        sources: list[HistorySource] = [LeaderHistory(read.days)]
        sources.append(_Lenient(StatusHistory(self._client, notes), gaps))
        if self._events:
            sources.append(_Lenient(EventHistory(self._client, notes), gaps))
        reclaims = history_of(sources, self._scope, period.since)
        return PastRead(period, read, tuple(reclaims), tuple(dict.fromkeys(gaps)))


def _held(asked: float, found: PastRead, before: _Held | None) -> _Held:
    """What is told after a reading: where the server did not answer, what was told before, and its time."""
    use = found.use_gap
    if not any(gap.cause == "outage" for gap in found.gaps):
        return _Held(asked, found, None if found.brief else found)
    good = before.good if before is not None else None
    # Who may no longer read the history is not told what it was.
    if good is None or (use is not None and use.cause == "right"):
        return _Held(asked, found, None)
    when = format_time(good.period.until)
    if use is None:
        of = Gap(f"what was taken back is shown as it was read at {when}", "outage", stale=True)
        told = msgspec.structs.replace(found, reclaims=good.reclaims, gaps=(*found.gaps, of))
    else:
        of = Gap(f"the history is shown as it was read at {when}", "outage", of_use=True, stale=True)
        told = msgspec.structs.replace(good, gaps=(*found.gaps, of, *good.gaps))
    return _Held(asked, told, good)


class _Lenient:
    """A source whose failure is a gap, so that what the other sources know is told."""

    def __init__(self, source: HistorySource, gaps: list[Gap]) -> None:
        self._source = source
        self._gaps = gaps

    def records(self, namespace: str) -> Iterator[Reclaim]:
        """The records as far as they can be read."""
        try:
            yield from self._source.records(namespace)
        except Forbidden:
            # Of the sources, only the status of quotas cannot do without its right.
            self._gaps.append(Gap(_QUOTAS_DENIED, "right"))
        except ApiError as error:
            self._gaps.append(Gap(f"what was taken back cannot be read now: {describe(error)}", "outage"))
        except MusterError as error:
            self._gaps.append(Gap(str(error), "damage"))


class Notes(Diagnostics):
    """Collects what a command would print on stderr."""

    def __init__(self, gaps: list[Gap]) -> None:
        super().__init__()
        self._gaps = gaps

    def unreadable(self, error: ModelError) -> None:
        """Keep what is wrong with an object."""
        self._gaps.append(Gap(str(error), "damage"))

    def note(self, text: str) -> None:
        """Keep what may not be listed."""
        self._gaps.append(Gap(text.removeprefix("note: "), "right"))
