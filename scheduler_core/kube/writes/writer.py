"""Writer of many small API objects: one thread, and one HTTP/2 connection or a few HTTP/1.1 connections.

With a thread per request, waking up would take more processor time than the request. A write that fails at
the first try is finished on other threads by the ordinary Client, which waits, renews credentials and repeats
where that is safe.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from scheduler_core.errors import MusterError
from scheduler_core.kube.batching import BatchDelay
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import error_from_status
from scheduler_core.kube.http.response_parser import ApiResponse, RequestNotProcessed
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.requests import SingleWrite, with_precondition
from scheduler_core.kube.workers import WorkerPool
from scheduler_core.kube.writes.write_connection import Done, QueuedWrite, WriteConnection, WritePriority
from scheduler_core.kube.writes.writer_connections import WriterConnections

CONNECTIONS: Final = 24
_CHUNK: Final = 1 << 16
_TICK: Final = 0.5
_SLOW_THREADS: Final = 8
_GATE_SECONDS: Final = 0.1
# With so many writes in flight, responses are collected.
_MANY_IN_FLIGHT: Final = 8


class ApiWriter:
    """Sends writes in the order of their priority.

    `submit` never blocks. `done` is called once per write on a thread of the writer, with None for success.
    Urgent writes (bindings, nominations, statuses) go before conditions, and conditions before Events. All
    but Events are sent only while `may_write` (leadership) returns True; it is called before every write.
    `tick`: seconds between two looks at what has exceeded its time.
    `limiters` has the rate limit of all writes but Events, of which conditions leave half of a burst to
    urgent writes; and that of Events. `connections` are for the writer's thread.
    """

    def __init__(
        self,
        client: Client,
        *,
        may_write: Callable[[], bool] = lambda: True,
        limiters: tuple[RateLimiter | None, RateLimiter | None] = (None, None),
        connections: int = CONNECTIONS,
        monotonic: Callable[[], float] = time.monotonic,
        tick: float = _TICK,
    ) -> None:
        self._client = client
        self.may_write = may_write
        self._limiters = {
            WritePriority.URGENT: limiters[0],
            WritePriority.CONDITION: limiters[0],
            WritePriority.EVENT: limiters[1],
        }
        self._monotonic = monotonic
        self._tick = tick
        self._queues: dict[WritePriority, deque[QueuedWrite]] = {
            priority: deque() for priority in WritePriority
        }
        # Writes that have left their queue and have no outcome yet.
        self._in_flight = dict.fromkeys(WritePriority, 0)
        self._selector = selectors.DefaultSelector()
        self.connections = WriterConnections(client.session, self._selector, connections, monotonic)
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        self._asleep = False
        self._stopping = False
        self.workers = WorkerPool(_SLOW_THREADS, "slow-writes")
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # From any thread

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Events that have not been sent."""
        return len(self._queues[WritePriority.EVENT])

    @property
    def pending(self) -> int:
        """Writes that are queued or in flight."""
        return self.workers.pending + sum(
            len(self._queues[priority]) + self._in_flight[priority] for priority in WritePriority
        )

    @property
    def backlog(self) -> int:
        """Urgent writes that are queued or in flight."""
        return (
            len(self._queues[WritePriority.URGENT])
            + self._in_flight[WritePriority.URGENT]
            + self.workers.pending
        )

    def submit(self, write: SingleWrite, done: Done, priority: WritePriority = WritePriority.URGENT) -> None:
        """Queue a write."""
        self._queues[priority].append(
            QueuedWrite(self._client.session.served.translated(write), done, priority)
        )
        if self._asleep:
            self._wake()

    def drop_unsent(self) -> int:
        """Drop the unsent writes that only the leader may send; returns their number."""
        queues = self._queues[WritePriority.URGENT], self._queues[WritePriority.CONDITION]
        dropped = sum(map(len, queues))
        for queue in queues:
            queue.clear()
        return dropped

    def stop(self, timeout: float) -> None:
        """Finish the queued writes, for at most `timeout` seconds, and end the threads."""
        deadline = self._monotonic() + timeout
        while self.pending and self._thread.is_alive() and self._monotonic() < deadline:
            time.sleep(0.005)
        self.workers.stop()
        self._stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(max(0.1, deadline - self._monotonic()))

    def _wake(self) -> None:
        with suppress(OSError):
            self._wake_in.send(b"x")

    # The writer's thread

    def _run(self) -> None:
        overdue_at = self._monotonic() + self._tick
        batch = BatchDelay()
        found = 0
        try:
            while not self._stopping:
                delay = self._send_all()
                if self.connections.expected_responses >= _MANY_IN_FLIGHT:
                    time.sleep(batch.after(found))
                self._asleep = True
                # A write that was queued just now did not wake the thread: check again before waiting.
                if delay is None and any(
                    self._queues[priority] and self.connections.capacity(priority is WritePriority.URGENT) > 0
                    for priority in WritePriority
                ):
                    delay = 0.0
                ready = self._selector.select(self._tick if delay is None else delay)
                self._asleep = False
                found = 0
                for key, _ in ready:
                    if key.data is None:
                        self._drain_wakes()
                    else:
                        found += self._receive(key.data)
                if self._monotonic() >= overdue_at:
                    self._fail_unanswered(self.connections.expire_all(), TimeoutError())
                    overdue_at = self._monotonic() + self._tick
        finally:
            self._close()

    def _drain_wakes(self) -> None:
        with suppress(BlockingIOError):
            while self._wake_out.recv(_CHUNK):
                pass

    def _send_all(self) -> float | None:
        """Send all writes that may be sent now; returns the seconds until the next check of rate or
        leadership, or None.
        """
        delays: list[float] = []
        for priority in WritePriority:
            queue, urgent = self._queues[priority], priority is WritePriority.URGENT
            while queue and self.connections.capacity(urgent) > 0:
                jobs, delay = self._admitted(priority, self.connections.batch_size(len(queue), urgent))
                if jobs:
                    self._send_batch(jobs)
                if delay is not None:
                    delays.append(delay)
                    break
        return min(delays, default=None)

    def _admitted(self, priority: WritePriority, most: int) -> tuple[list[QueuedWrite], float | None]:
        """At most `most` writes that may be sent now, and if there are fewer, the seconds until the next
        check.
        """
        queue, limiter = self._queues[priority], self._limiters[priority]
        spare = limiter.half_burst if limiter is not None and priority is WritePriority.CONDITION else 0.0
        jobs: list[QueuedWrite] = []
        while queue and len(jobs) < most:
            if priority is not WritePriority.EVENT and not self.may_write():
                return jobs, _GATE_SECONDS
            if limiter is not None and not limiter.take(spare=spare):
                return jobs, limiter.delay(spare=spare)
            # Counted before it leaves the queue, so that it is always counted once at least.
            self._in_flight[priority] += 1
            try:
                jobs.append(queue.popleft())
            except IndexError:
                # Dropped by another thread.
                self._in_flight[priority] -= 1
        return jobs, None

    def _send_batch(self, jobs: list[QueuedWrite]) -> None:
        try:
            connection = self.connections.take()
            encoded = [connection.encode(job) for job in jobs]
        except (OSError, MusterError) as error:
            if isinstance(error, TimeoutError):
                self.connections.drain_all()
            self._retry_all(jobs)
            return
        self._retry_all([job for job, data in zip(jobs, encoded, strict=True) if data is None])
        fitting = [(job, data) for job, data in zip(jobs, encoded, strict=True) if data is not None]
        if not fitting:
            return
        try:
            self.connections.send(connection, fitting)
        except OSError as error:
            self._break(connection, error)

    def _break(self, connection: WriteConnection, error: OSError) -> None:
        """Sending failed: writes that the server cannot have received completely are repeated."""
        undelivered = {id(job) for job in connection.undelivered()}
        left = self.connections.drop(connection)
        self._fail_unanswered([job for job in left if id(job) not in undelivered], error)
        self._retry_all([job for job in left if id(job) in undelivered])

    def _receive(self, connection: WriteConnection) -> int:
        """Send unsent bytes and read responses; returns the number of responses."""
        try:
            connection.transport.flush()
        except OSError as error:
            self._break(connection, error)
            return 0
        found = 0
        try:
            for job, outcome in connection.responses(self._monotonic()):
                found += 1
                if isinstance(outcome, ApiResponse):
                    self._finish(connection, job, outcome)
                elif isinstance(outcome, RequestNotProcessed):
                    self._retry_all([job])
                else:
                    self._fail_unanswered([job], outcome)
            self.connections.update_interest(connection)
        except MemoryError:
            raise
        except Exception as error:
            self._fail_unanswered(self.connections.drop(connection), error)
        else:
            self.connections.release(connection)
        return found

    def _finish(self, connection: WriteConnection, job: QueuedWrite, answer: ApiResponse) -> None:
        """Report the outcome of a response."""
        if 200 <= answer.status < 300:
            self._complete(job, None)
            return
        if answer.status == 401:
            # The connection may use a client certificate that is no longer accepted.
            connection.drain()
        # A condition is not worth waiting for: the server asked for a pause, and newer conditions will
        # follow.
        patient = job.priority is not WritePriority.CONDITION and _may_wait(answer, self._client.retry_budget)
        if answer.status == 401 or patient:
            # The server did not begin the write: the Client renews credentials, or waits, and repeats it.
            self._retry_all([job], answer.retry_after or 0.0)
        else:
            request = job.http_request()
            error = error_from_status(answer.status, answer.body, method=request.method, path=request.path)
            self._complete(job, with_precondition(job.write, error))

    def _fail_unanswered(self, jobs: list[QueuedWrite], error: Exception) -> None:
        """The connection broke: the server may have received these requests."""
        for job in jobs:
            request = job.http_request()
            self._complete(
                job, self._client.session.unreachable(error, request.method, request.path, sent=True)
            )

    def _complete(self, job: QueuedWrite, error: MusterError | None) -> None:
        self._in_flight[job.priority] -= 1
        job.complete(error)

    def _retry_all(self, jobs: list[QueuedWrite], delay: float = 0.0) -> None:
        """Repeat the writes on other threads, after `delay` seconds."""
        due = self._monotonic() + delay
        for job in jobs:
            self.workers.submit(partial(self._retry, job, due))
            self._in_flight[job.priority] -= 1

    def _retry(self, job: QueuedWrite, due: float) -> None:
        # The time in the queue of the pool counts as part of the delay.
        if (left := due - self._monotonic()) > 0:
            self._client.pause(left)
        try:
            self._client.write(job.write)
        except MusterError as error:
            job.complete(error)
        else:
            job.complete(None)

    def _close(self) -> None:
        for connection in self.connections.all():
            self._fail_unanswered(self.connections.drop(connection), TimeoutError())
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()


def _may_wait(answer: ApiResponse, budget: float) -> bool:
    return answer.retry_after is not None and answer.retry_after <= budget
