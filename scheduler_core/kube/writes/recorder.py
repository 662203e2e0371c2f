"""EventRecorder, as in client-go: posts Events in the background, within a rate limit."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, ApiError
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.writes.correlator import EventCorrelator, Occurrence
from scheduler_core.kube.writes.write_connection import WritePriority
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.model.writes import Create, Patch

_TICK = 1.0
_RETRY_DELAYS = (0.5, 2.0)


class EventRecorder:
    """A bounded queue and a thread that posts its Events; with a `writer`, new Events are sent by the writer.

    `dropped` counts Events that were not posted, by reason: `full` (the queue), `rate`, and `failed` (the
    server). `posted` counts created Events and written counts. Both may be read from any thread.
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
        self._queue: queue.Queue[tuple[Occurrence, Create | Patch | None]] = queue.Queue(capacity)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="event-recorder", daemon=True)

    def record(self, occurrence: Occurrence) -> bool:
        """Queue an occurrence; drops and counts it if the queue is full. Thread-safe, never blocks.

        False if its note is in no Event: dropped, or left out because an Event with another note was posted
        just before. Without a writer this is not known, and the answer is True.
        """
        if self._writer is None:
            self._put(occurrence, None)
            return True
        if self._writer.waiting >= self._capacity:
            self._drop("full")
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

    def _drop(self, reason: str) -> None:
        with self._lock:
            self.dropped[reason] += 1

    def _outcome(self, occurrence: Occurrence, write: Create | Patch, error: MusterError | None) -> None:
        """The outcome of the writer; after an error of the server the recorder's thread tries again."""
        if error is None or isinstance(error, AlreadyExists):
            with self._lock:
                self.posted += 1
        elif isinstance(error, ApiError) and 0 < error.status < 500:
            self._on_error(error)
            self._drop("failed")
            self._forget(occurrence)
        else:
            self._put(occurrence, write)

    def _forget(self, occurrence: Occurrence) -> None:
        with self._lock:
            self._correlator.forget(occurrence)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """Post the queued Events, for at most `timeout` seconds, and end the thread."""
        deadline = time.monotonic() + timeout
        while self._queue.unfinished_tasks and time.monotonic() < deadline and self._thread.is_alive():
            time.sleep(0.01)
        self._stopping.set()
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def run(self) -> None:
        """The body of the thread."""
        flushed = time.monotonic()
        while not self._stopping.is_set():
            try:
                occurrence, write = self._queue.get(timeout=self._tick)
            except queue.Empty:
                pass
            else:
                self._post(occurrence, write)
                self._queue.task_done()
            if time.monotonic() - flushed >= self._tick:
                flushed = time.monotonic()
                self._flush()

    def _post(self, occurrence: Occurrence, again: Create | Patch | None) -> None:
        with self._lock:
            writes = self._correlator.observe(occurrence) if again is None else [again]
        for write in writes:
            if self._limiter is not None and not self._limiter.take():
                self._drop("rate")
                if isinstance(write, Create):
                    self._forget(occurrence)
            elif not self._write(write):
                self._forget(occurrence)

    def _flush(self) -> None:
        with self._lock:
            patches = self._correlator.due(self._wall())
        for patch in patches:
            if self._limiter is not None and not self._limiter.take():
                self._drop("rate")
                return
            self._write(patch)

    def _write(self, write: Create | Patch) -> bool:
        """Write, with a few retries after errors of the server; True if the Event exists now."""
        for delay in (*self._retry_delays, None):
            try:
                self._client.write(write)
            except AlreadyExists:
                break
            except MusterError as error:
                self._on_error(error)
                refused = isinstance(error, ApiError) and 0 < error.status < 500
                if delay is None or refused or self._stopping.wait(delay):
                    self._drop("failed")
                    return False
            else:
                break
        with self._lock:
            self.posted += 1
        return True
