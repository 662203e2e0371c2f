"""Many small writes at once: one thread, a few keep-alive connections, one write on each at a time.

A thread per request spends more processor time on waking up than on the request. What does not end well at
the first try is finished on threads of its own by the ordinary Client, which waits, renews credentials and
repeats where that is safe.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from scheduler_core.errors import MusterError
from scheduler_core.kube.answers import is_plain_success, read_answer
from scheduler_core.kube.client import Client
from scheduler_core.kube.connection import MAX_IDLE_SECONDS
from scheduler_core.kube.errors import error_from_status
from scheduler_core.kube.exchange import Done, Job, Lane
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.requests import SingleWrite, request_for, with_precondition
from scheduler_core.kube.session import Answer
from scheduler_core.kube.workers import Workers

CONNECTIONS: Final = 24
# Events may never hold up a binding: they use at most so many connections.
LATER_CONNECTIONS: Final = 8
_CHUNK: Final = 1 << 16
_TICK: Final = 1.0
_SLOW_THREADS: Final = 8
_GATE_SECONDS: Final = 0.1
# With so many answers on their way, some are waited for together: to wake up for each costs more than itself.
_CROWD: Final = 8
_BREATH: Final = 0.002


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
        self._busy: set[Lane] = set()
        self._idle: list[Lane] = []
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
        overdue_at = self._monotonic() + _TICK
        try:
            while not self._stopping:
                delay = self._begin_all()
                if len(self._busy) >= _CROWD:
                    time.sleep(_BREATH)
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
                if self._monotonic() >= overdue_at:
                    self._end_overdue()
                    overdue_at = self._monotonic() + _TICK
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
        try:
            payload = session.encode(request.method, request.path, request.body, request.content_type)
            lane = self._idle.pop() if self._idle else self._open()
        except (OSError, MusterError):
            self.slow.submit(partial(self._repeat, job))
            return
        lane.job, lane.unsent = job, payload
        lane.deadline = self._monotonic() + session.limits.read
        self._busy.add(lane)
        self._later_busy += not job.urgent
        self._send(lane, job)

    def _open(self) -> Lane:
        """A new connection. Raises OSError, KubeconfigError."""
        connection = self._client.session.new_connection()
        try:
            connection.open()
            connection.unblock()
        except BaseException:
            connection.close()
            raise
        lane = Lane(connection)
        self._selector.register(lane.raw, selectors.EVENT_READ, lane)
        return lane

    def _send(self, lane: Lane, job: Job) -> None:
        try:
            lane.send()
        except OSError:
            # The server cannot have got all of it: safe to repeat.
            self._drop(lane)
            self.slow.submit(partial(self._repeat, job))
            return
        if lane.unsent:
            self._selector.modify(lane.raw, selectors.EVENT_READ | selectors.EVENT_WRITE, lane)

    def _continue(self, lane: Lane) -> None:
        if lane.unsent and lane.job is not None:
            self._send(lane, lane.job)
            if lane.unsent or lane.job is None:
                return
            self._selector.modify(lane.raw, selectors.EVENT_READ, lane)
        try:
            ended = lane.receive()
            if lane.job is None:
                # A connection at rest: the server closes it, or says what nobody asked for.
                if ended or lane.buffer:
                    self._drop(lane)
                return
            if ended and not lane.buffer:
                raise ConnectionResetError("the server closed the connection without an answer")
            plain = not ended and is_plain_success(lane.buffer)
            found = None if plain else read_answer(lane.buffer, ended=ended)
        except Exception as error:
            self._break(lane, error)
            return
        if plain:
            self._freed(lane, reusable=True).tell(None)
        elif found is not None:
            answer, reusable = found
            self._finish(self._freed(lane, reusable=reusable), answer)

    def _freed(self, lane: Lane, *, reusable: bool) -> Job:
        """The job of a lane whose answer is there; the lane rests or is closed."""
        job = lane.job
        assert job is not None
        self._leave(lane)
        if not reusable:
            self._drop(lane)
            return job
        lane.job = None
        lane.buffer.clear()
        lane.deadline = self._monotonic() + MAX_IDLE_SECONDS
        self._idle.append(lane)
        return job

    def _drop(self, lane: Lane) -> None:
        """Close a connection; its job, if it has one, is the caller's business."""
        if lane in self._busy:
            self._leave(lane)
        if lane in self._idle:
            self._idle.remove(lane)
        lane.job = None
        self._selector.unregister(lane.raw)
        lane.connection.close()

    def _leave(self, lane: Lane) -> None:
        self._busy.discard(lane)
        self._later_busy -= lane.job is not None and not lane.job.urgent

    def _finish(self, job: Job, answer: Answer) -> None:
        assert job.request is not None
        if 200 <= answer.status < 300:
            job.tell(None)
        elif answer.status == 401 or answer.retry_after is not None:
            # Not begun by the server: the ordinary way waits, or renews the credentials, and repeats.
            self.slow.submit(partial(self._repeat, job))
        else:
            method, path = job.request.method, job.request.path
            error = error_from_status(answer.status, answer.body, method=method, path=path)
            job.tell(with_precondition(job.write, error))

    def _break(self, lane: Lane, error: Exception) -> None:
        """A connection broke: the server may have got its request."""
        job = lane.job
        self._drop(lane)
        if job is not None and job.request is not None:
            method, path = job.request.method, job.request.path
            job.tell(self._client.session.unreachable(error, method, path, sent=True))

    def _repeat(self, job: Job) -> None:
        """Once more, on a slow thread."""
        try:
            self._client.write(job.write)
        except MusterError as error:
            job.tell(error)
        else:
            job.tell(None)

    def _end_overdue(self) -> None:
        """Give up answers that do not come, and connections that rest for long, before the server does."""
        now = self._monotonic()
        for lane in [lane for lane in (*self._busy, *self._idle) if lane.deadline < now]:
            self._break(lane, TimeoutError())

    def _close(self) -> None:
        for lane in [*self._busy, *self._idle]:
            self._break(lane, TimeoutError())
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()
