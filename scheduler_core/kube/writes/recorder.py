"""EventRecorder, as in client-go: posts Events in the background, within a rate limit."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, ApiError, TooManyRequests
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.writes.correlator import EventCorrelator, ObjectReference, Occurrence
from scheduler_core.kube.writes.write_connection import WritePriority
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.model.writes import Create, Patch

_TICK = 1.0
# Postponed notes and counts that are written in one tick.
_AT_ONCE = 100
_SERVERS_FAULT = 500
_RETRY_DELAYS = (0.5, 2.0)


class EventRecorder:
    """A bounded queue and a thread that posts its Events; with a `writer`, new Events are sent by the writer.

    The thread also posts the notes that the correlator postponed, when they are due and at `stop`.
    `dropped` counts writes that were given up, by reason: `full` (the queue), `rate`, and `failed` (the
    server). A note whose Event was given up is postponed, unless the server refused it. `posted` counts
    created Events and written counts. Both may be read from any thread.
    """

    def __init__(
        self,
        client: Client,
        *,
        writer: ApiWriter | None = None,
        correlator: EventCorrelator | None = None,
        limiter: RateLimiter | None = None,
        capacity: int = 10_000,
        on_error: Callable[[MusterError], None] = lambda error: None,
        wall: Callable[[], float] = time.time,
        tick: float = _TICK,
        retry_delays: tuple[float, ...] = _RETRY_DELAYS,
    ) -> None:
        self.posted = 0
        self.dropped: Counter[str] = Counter()
        self._client = client
        self._correlator = correlator or EventCorrelator()
        self._limiter = limiter
        self._on_error = on_error
        self._wall = wall
        self._tick = tick
        self._retry_delays = retry_delays
        self._writer = writer
        self._capacity = capacity
        self._lock = threading.Lock()
        # None wakes the thread.
        self._queue: queue.Queue[tuple[Occurrence, Create | Patch | None] | None] = queue.Queue(capacity)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="event-recorder", daemon=True)

    def record(self, occurrence: Occurrence) -> bool:
        """Queue an occurrence; drops and counts it if the queue is full. Thread-safe, never blocks.

        False if its note is in no Event yet, but postponed. Without a writer this is not known: True.
        """
        if self._writer is None:
            self._put(occurrence, None)
            return True
        if self._writer.waiting >= self._capacity:
            self._give_up("full", occurrence)
            return False
        with self._lock:
            writes = self._correlator.observe(occurrence)
            told = self._correlator.tells(occurrence)
        for write in writes:
            self._writer.submit(write, partial(self._outcome, occurrence, write), WritePriority.EVENT)
        return told

    def _put(self, occurrence: Occurrence, write: Create | Patch | None) -> None:
        try:
            self._queue.put_nowait((occurrence, write))
        except queue.Full:
            self._drop("full")

    def is_postponed(self, regarding: ObjectReference) -> bool:
        """Whether there is a note about this object that no Event tells yet. Thread-safe."""
        with self._lock:
            return self._correlator.is_postponed(regarding)

    def withdraw(self, regarding: ObjectReference) -> None:
        """The note about this object no longer holds: no Event is created for it any more. Thread-safe."""
        with self._lock:
            self._correlator.withdraw(regarding)

    def _drop(self, reason: str) -> None:
        with self._lock:
            self.dropped[reason] += 1

    def _give_up(self, reason: str, occurrence: Occurrence) -> None:
        with self._lock:
            self.dropped[reason] += 1
            self._correlator.postpone(occurrence)

    def _outcome(self, occurrence: Occurrence, write: Create | Patch, error: MusterError | None) -> None:
        """The outcome of the writer; after an error of the server the recorder's thread tries again."""
        if error is None or isinstance(error, AlreadyExists):
            with self._lock:
                self.posted += 1
        elif _refused(error):
            self._on_error(error)
            self._failed(occurrence, write, error)
        else:
            self._put(occurrence, write)

    def _failed(self, occurrence: Occurrence, write: Create | Patch, error: MusterError) -> None:
        """A write failed for good, or after the last retry."""
        if isinstance(write, Create) and not _refused(error):
            self._give_up("failed", occurrence)
            return
        with self._lock:
            self.dropped["failed"] += 1
            self._correlator.forget(occurrence.key)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """Post the queued Events, for at most `timeout` seconds, and end the thread."""
        deadline = time.monotonic() + timeout
        while self._queue.unfinished_tasks and time.monotonic() < deadline and self._thread.is_alive():
            time.sleep(0.01)
        self._stopping.set()
        # Where the queue is full, the thread does not wait.
        with suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def run(self) -> None:
        """The body of the thread."""
        flushed = time.monotonic()
        while not self._stopping.is_set():
            try:
                entry = self._queue.get(timeout=self._tick)
            except queue.Empty:
                pass
            else:
                if entry is not None:
                    self._post(*entry)
                self._queue.task_done()
            if time.monotonic() - flushed >= self._tick:
                flushed = time.monotonic()
                self._flush()
        self._flush(all_notes=True)

    def _post(self, occurrence: Occurrence, again: Create | Patch | None) -> None:
        with self._lock:
            writes = self._correlator.observe(occurrence) if again is None else [again]
        for write in writes:
            if self._limiter is None or self._limiter.take():
                self._write(occurrence, write)
            elif isinstance(write, Create):
                self._give_up("rate", occurrence)
            else:
                self._drop("rate")

    def _flush(self, *, all_notes: bool = False) -> None:
        allowed = _FirstFew(self._limiter)
        with self._lock:
            writes = self._correlator.due(self._wall(), allowed.take, all_notes=all_notes)
        for write, occurrence in writes:
            self._write(occurrence, write)

    def _write(self, occurrence: Occurrence, write: Create | Patch) -> None:
        """Write, with a few retries after errors of the server."""
        for delay in (*self._retry_delays, None):
            try:
                self._client.write(write)
            except AlreadyExists:
                break
            except MusterError as error:
                self._on_error(error)
                if delay is None or _refused(error) or self._stopping.wait(delay):
                    self._failed(occurrence, write, error)
                    return
            else:
                break
        with self._lock:
            self.posted += 1


class _FirstFew:
    """Allows the first few writes of one flush, within the rate limit."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        self._limiter = limiter
        self._left = _AT_ONCE

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0 and (self._limiter is None or self._limiter.take())


def _refused(error: MusterError) -> bool:
    """Whether the server refuses the write, now and later."""
    if isinstance(error, TooManyRequests):
        return False
    return isinstance(error, ApiError) and 0 < error.status < _SERVERS_FAULT
