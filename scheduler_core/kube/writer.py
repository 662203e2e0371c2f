"""Many small writes at once: one thread, a few keep-alive connections, one write on each at a time.

A thread per request spends more processor time on waking up than on the request. What does not end well at
the first try is finished on threads of its own by the ordinary Client, which waits, renews credentials and
repeats where that is safe.
"""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from scheduler_core.errors import MusterError
from scheduler_core.kube.answers import read_answer
from scheduler_core.kube.client import Client
from scheduler_core.kube.connection import MAX_IDLE_SECONDS, Connection
from scheduler_core.kube.errors import error_from_status
from scheduler_core.kube.exchange import Done, Exchange, Job
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.requests import SingleWrite, request_for, with_precondition
from scheduler_core.kube.session import Answer
from scheduler_core.kube.workers import Workers

log = logging.getLogger(__name__)

CONNECTIONS: Final = 24
# Events may never hold up a binding: they use at most so many connections.
LATER_CONNECTIONS: Final = 8
_CHUNK: Final = 1 << 16
_TICK: Final = 1.0
_SLOW_THREADS: Final = 8
_GATE_SECONDS: Final = 0.1


class Writer:
    """`submit` never blocks; `done` is called once per write, on a thread of the writer, None for success.

    Urgent writes (bindings, conditions) go before the others (events), and only while `may_write` says yes
    (leadership); it is asked before every one. `limiters`: of urgent and of other writes.
    """

    def __init__(
        self,
        client: Client,
        *,
        may_write: Callable[[], bool] = lambda: True,
        limiters: tuple[RateLimiter | None, RateLimiter | None] = (None, None),
        connections: int = CONNECTIONS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self.may_write = may_write
        self._limiters = {True: limiters[0], False: limiters[1]}
        self._most = connections
        self._monotonic = monotonic
        self._queues: dict[bool, deque[Job]] = {True: deque(), False: deque()}
        self._busy: set[Exchange] = set()
        self._idle: list[Connection] = []
        self._later_busy = 0
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        self._asleep = False
        self._stopping = False
        self.slow = Workers(_SLOW_THREADS, "slow-writes")
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # From any thread

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Writes that are not urgent and not sent yet."""
        return len(self._queues[False])

    @property
    def pending(self) -> int:
        """Writes that are queued or on their way."""
        return self.backlog + len(self._queues[False]) + self._later_busy

    @property
    def backlog(self) -> int:
        """Urgent writes that are queued or on their way."""
        return len(self._queues[True]) + len(self._busy) - self._later_busy + self.slow.pending

    def submit(self, write: SingleWrite, done: Done, *, urgent: bool = True) -> None:
        """Carry a write out, soon."""
        self._queues[urgent].append(Job(write, done, urgent))
        if self._asleep:
            self._wake()

    def drop_unsent(self) -> int:
        """Forget urgent writes that have not been sent; how many."""
        dropped = len(self._queues[True])
        self._queues[True].clear()
        return dropped

    def stop(self, timeout: float) -> None:
        """Finish what was queued, for at most `timeout` seconds, and end the threads."""
        deadline = self._monotonic() + timeout
        while self.pending and self._thread.is_alive() and self._monotonic() < deadline:
            time.sleep(0.005)
        self.slow.stop()
        self._stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(max(0.1, deadline - self._monotonic()))

    def _wake(self) -> None:
        try:
            self._wake_in.send(b"x")
        except OSError:
            return

    # The writer's thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                delay = self._begin_all()
                self._asleep = True
                # A job that came just now found us awake: look once more before sleeping.
                if delay is None and (self._queues[True] or self._queues[False]) and self._room():
                    delay = 0.0
                ready = self._selector.select(_TICK if delay is None else delay)
                self._asleep = False
                for key, _ in ready:
                    if key.data is None:
                        self._drain_wakes()
                    else:
                        self._continue(key.data)
                self._end_overdue()
        finally:
            self._close()

    def _room(self) -> bool:
        return len(self._busy) < self._most and (
            bool(self._queues[True]) or self._later_busy < LATER_CONNECTIONS
        )

    def _drain_wakes(self) -> None:
        try:
            while self._wake_out.recv(_CHUNK):
                pass
        except BlockingIOError:
            return

    def _begin_all(self) -> float | None:
        """Send what may be sent now; seconds until the rate or the gate is asked again, or None."""
        delay: float | None = None
        for urgent in (True, False):
            jobs, limiter = self._queues[urgent], self._limiters[urgent]
            while jobs and len(self._busy) < self._most:
                if not urgent and self._later_busy >= LATER_CONNECTIONS:
                    break
                if urgent and not self.may_write():
                    delay = _GATE_SECONDS
                    break
                if limiter is not None and not limiter.take():
                    delay = limiter.delay() if delay is None else min(delay, limiter.delay())
                    break
                self._begin(jobs.popleft())
        return delay

    def _begin(self, job: Job) -> None:
        session = self._client.session
        request = job.request = request_for(job.write)
        connection = self._connection()
        exchange = Exchange(connection, job, self._monotonic() + session.limits.read)
        try:
            payload = session.encode(request.method, request.path, request.body, request.content_type)
            if not connection.opened:
                connection.open()
                connection.unblock()
        except (OSError, MusterError) as error:
            connection.close()
            self._fail(job, error, sent=False)
            return
        self._busy.add(exchange)
        self._later_busy += not job.urgent
        exchange.unsent = payload
        self._selector.register(connection.raw, selectors.EVENT_READ, exchange)
        self._send(exchange)

    def _connection(self) -> Connection:
        """An idle connection, newest first, or a new one that is not open yet."""
        while self._idle:
            connection = self._idle.pop()
            rested = self._monotonic() - connection.idle_since
            if rested < 1.0 or (rested < MAX_IDLE_SECONDS and not connection.stale()):
                return connection
            connection.close()
        return self._client.session.new_connection()

    def _send(self, exchange: Exchange) -> None:
        connection = exchange.connection
        try:
            sent = connection.raw.send(exchange.unsent)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            self._break(exchange, error, sent=False)
            return
        exchange.unsent = exchange.unsent[sent:]
        if exchange.unsent:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(connection.raw, both, exchange)

    def _continue(self, exchange: Exchange) -> None:
        if exchange not in self._busy:
            return
        if exchange.unsent:
            self._send(exchange)
            if exchange not in self._busy or exchange.unsent:
                return
            self._selector.modify(exchange.connection.raw, selectors.EVENT_READ, exchange)
        try:
            ended = exchange.receive()
            if ended and not exchange.buffer:
                raise ConnectionResetError("the server closed the connection without an answer")
            found = read_answer(exchange.buffer, ended=ended)
        except Exception as error:
            self._break(exchange, error, sent=True)
            return
        if found is not None:
            self._finish(exchange, *found)

    def _release(self, exchange: Exchange) -> None:
        self._busy.discard(exchange)
        self._later_busy -= not exchange.job.urgent
        self._selector.unregister(exchange.connection.raw)

    def _finish(self, exchange: Exchange, answer: Answer, reusable: bool) -> None:
        self._release(exchange)
        if reusable:
            exchange.connection.idle_since = self._monotonic()
            self._idle.append(exchange.connection)
        else:
            exchange.connection.close()
        job = exchange.job
        if 200 <= answer.status < 300:
            _tell(job, None)
        elif answer.status == 401 or answer.retry_after is not None:
            # Not begun by the server: the ordinary way waits, or renews the credentials, and repeats.
            self.slow.submit(lambda: self._repeat(job))
        else:
            assert job.request is not None
            method, path = job.request.method, job.request.path
            error = error_from_status(answer.status, answer.body, method=method, path=path)
            _tell(job, with_precondition(job.write, error))

    def _break(self, exchange: Exchange, error: Exception, *, sent: bool) -> None:
        self._release(exchange)
        exchange.connection.close()
        self._fail(exchange.job, error, sent=sent)

    def _fail(self, job: Job, error: Exception, *, sent: bool) -> None:
        if not sent:
            self.slow.submit(lambda: self._repeat(job))
            return
        assert job.request is not None
        session = self._client.session
        _tell(job, session.unreachable(error, job.request.method, job.request.path, sent=True))

    def _repeat(self, job: Job) -> None:
        """Once more, on a slow thread."""
        try:
            self._client.write(job.write)
        except MusterError as error:
            _tell(job, error)
        else:
            _tell(job, None)

    def _end_overdue(self) -> None:
        now = self._monotonic()
        for exchange in [exchange for exchange in self._busy if exchange.deadline < now]:
            self._break(exchange, TimeoutError(), sent=True)

    def _close(self) -> None:
        for exchange in list(self._busy):
            self._break(exchange, TimeoutError(), sent=True)
        for connection in self._idle:
            connection.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()


def _tell(job: Job, error: MusterError | None) -> None:
    try:
        job.done(error)
    except Exception:
        log.exception("the consumer of a write's outcome failed")
