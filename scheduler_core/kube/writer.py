"""Many small writes at once: one thread, and one connection of HTTP/2 or a few of HTTP/1.1.

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
from scheduler_core.kube.answers import Answer, NotBegun
from scheduler_core.kube.breath import Breath
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import error_from_status
from scheduler_core.kube.exchange import Done, Job, Lane, Rank
from scheduler_core.kube.lanes import Lanes
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.requests import SingleWrite, with_precondition
from scheduler_core.kube.workers import Workers

CONNECTIONS: Final = 24
_CHUNK: Final = 1 << 16
_TICK: Final = 0.5
_SLOW_THREADS: Final = 8
_GATE_SECONDS: Final = 0.1
# With so many answers on their way, some are waited for together.
_CROWD: Final = 8


class Writer:
    """`submit` never blocks; `done` is called once per write, on a thread of the writer, None for success.

    Urgent writes (bindings, nominations, statuses) go before conditions, and those before events; all but
    events only while `may_write` says yes (leadership), which is asked before every one. `limiters`: of all
    but events, where conditions leave half of a burst to what is urgent; and of events.
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
        self._limiters = {Rank.URGENT: limiters[0], Rank.CONDITION: limiters[0], Rank.EVENT: limiters[1]}
        self._monotonic = monotonic
        self._queues: dict[Rank, deque[Job]] = {rank: deque() for rank in Rank}
        # Writes that left their queue and have no outcome yet.
        self._flying = dict.fromkeys(Rank, 0)
        self._selector = selectors.DefaultSelector()
        self._lanes = Lanes(client.session, self._selector, connections, monotonic)
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
        """Events that are not sent yet."""
        return len(self._queues[Rank.EVENT])

    @property
    def pending(self) -> int:
        """Writes that are queued or on their way."""
        return self.slow.pending + sum(len(self._queues[rank]) + self._flying[rank] for rank in Rank)

    @property
    def backlog(self) -> int:
        """Urgent writes that are queued or on their way."""
        return len(self._queues[Rank.URGENT]) + self._flying[Rank.URGENT] + self.slow.pending

    def submit(self, write: SingleWrite, done: Done, rank: Rank = Rank.URGENT) -> None:
        """Carry a write out, soon."""
        self._queues[rank].append(Job(write, done, rank))
        if self._asleep:
            self._wake()

    def drop_unsent(self) -> int:
        """Forget all that only the leader may write and that has not been sent; how many."""
        queues = self._queues[Rank.URGENT], self._queues[Rank.CONDITION]
        dropped = sum(map(len, queues))
        for queue in queues:
            queue.clear()
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
        breath = Breath()
        found = 0
        try:
            while not self._stopping:
                delay = self._begin_all()
                if self._lanes.crowd >= _CROWD:
                    time.sleep(breath.after(found))
                self._asleep = True
                # A job that came just now found us awake: look once more before sleeping.
                if delay is None and any(
                    self._queues[rank] and self._lanes.room(rank is Rank.URGENT) > 0 for rank in Rank
                ):
                    delay = 0.0
                ready = self._selector.select(_TICK if delay is None else delay)
                self._asleep = False
                found = 0
                for key, _ in ready:
                    if key.data is None:
                        self._drain_wakes()
                    else:
                        found += self._continue(key.data)
                if self._monotonic() >= overdue_at:
                    self._lose(self._lanes.overdue(), TimeoutError())
                    overdue_at = self._monotonic() + _TICK
        finally:
            self._close()

    def _drain_wakes(self) -> None:
        try:
            while self._wake_out.recv(_CHUNK):
                pass
        except BlockingIOError:
            return

    def _begin_all(self) -> float | None:
        """Send what may be sent now; seconds until the rate or the gate is asked again, or None."""
        delays: list[float] = []
        for rank in Rank:
            queue, urgent = self._queues[rank], rank is Rank.URGENT
            while queue and self._lanes.room(urgent) > 0:
                jobs, delay = self._admitted(rank, self._lanes.share(len(queue), urgent))
                if jobs:
                    self._begin(jobs)
                if delay is not None:
                    delays.append(delay)
                    break
        return min(delays, default=None)

    def _admitted(self, rank: Rank, most: int) -> tuple[list[Job], float | None]:
        """At most so many jobs that may go now, and where fewer may, seconds until more can."""
        queue, limiter = self._queues[rank], self._limiters[rank]
        spare = limiter.half if limiter is not None and rank is Rank.CONDITION else 0.0
        jobs: list[Job] = []
        while queue and len(jobs) < most:
            if rank is not Rank.EVENT and not self.may_write():
                return jobs, _GATE_SECONDS
            if limiter is not None and not limiter.take(spare=spare):
                return jobs, limiter.delay(spare=spare)
            # Counted before it leaves the queue, so that nobody finds it nowhere.
            self._flying[rank] += 1
            try:
                jobs.append(queue.popleft())
            except IndexError:
                # Dropped by another thread at this very moment.
                self._flying[rank] -= 1
        return jobs, None

    def _begin(self, jobs: list[Job]) -> None:
        try:
            lane = self._lanes.take()
            encoded = [lane.encode(job) for job in jobs]
        except (OSError, MusterError):
            self._repeat_all(jobs)
            return
        self._repeat_all([job for job, data in zip(jobs, encoded, strict=True) if data is None])
        fitting = [(job, data) for job, data in zip(jobs, encoded, strict=True) if data is not None]
        if not fitting:
            return
        try:
            self._lanes.begin(lane, fitting)
        except OSError as error:
            self._break(lane, error)

    def _break(self, lane: Lane, error: OSError) -> None:
        """Sending failed: what the server cannot have got whole is safe to repeat."""
        undelivered = {id(job) for job in lane.undelivered()}
        left = self._lanes.drop(lane)
        self._lose([job for job in left if id(job) not in undelivered], error)
        self._repeat_all([job for job in left if id(job) in undelivered])

    def _continue(self, lane: Lane) -> int:
        """Send on, and take what answers there are; how many."""
        try:
            lane.wire.flush()
        except OSError as error:
            self._break(lane, error)
            return 0
        found = 0
        try:
            for job, outcome in lane.answers(self._monotonic()):
                found += 1
                if isinstance(outcome, Answer):
                    self._finish(lane, job, outcome)
                elif isinstance(outcome, NotBegun):
                    self._repeat_all([job])
                else:
                    self._lose([job], outcome)
            self._lanes.mind(lane)
        except MemoryError:
            raise
        except Exception as error:
            self._lose(self._lanes.drop(lane), error)
        else:
            self._lanes.settle(lane)
        return found

    def _finish(self, lane: Lane, job: Job, answer: Answer) -> None:
        """The server answered."""
        if 200 <= answer.status < 300:
            self._tell(job, None)
            return
        if answer.status == 401:
            # Perhaps it was made with a certificate that is not taken any more.
            lane.retire()
        # Who says later what is said on objects is asked by nobody to hold up what was decided.
        patient = job.rank is not Rank.CONDITION and _may_wait(answer, self._client.retry_budget)
        if answer.status == 401 or patient:
            # Not begun by the server: the ordinary way renews the credentials, or waits on, and repeats.
            self._repeat_all([job], answer.retry_after or 0.0)
        else:
            request = job.made()
            error = error_from_status(answer.status, answer.body, method=request.method, path=request.path)
            self._tell(job, with_precondition(job.write, error))

    def _lose(self, jobs: list[Job], error: Exception) -> None:
        """The connection broke: the server may have got these requests."""
        for job in jobs:
            request = job.made()
            self._tell(job, self._client.session.unreachable(error, request.method, request.path, sent=True))

    def _tell(self, job: Job, error: MusterError | None) -> None:
        self._flying[job.rank] -= 1
        job.tell(error)

    def _repeat_all(self, jobs: list[Job], delay: float = 0.0) -> None:
        """Once more, on slow threads, in so many seconds."""
        due = self._monotonic() + delay
        for job in jobs:
            self.slow.submit(partial(self._repeat, job, due))
            self._flying[job.rank] -= 1

    def _repeat(self, job: Job, due: float) -> None:
        # Those that had to wait for a thread have waited already.
        if (left := due - self._monotonic()) > 0:
            self._client.pause(left)
        try:
            self._client.write(job.write)
        except MusterError as error:
            job.tell(error)
        else:
            job.tell(None)

    def _close(self) -> None:
        for lane in self._lanes.all():
            self._lose(self._lanes.drop(lane), TimeoutError())
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()


def _may_wait(answer: Answer, budget: float) -> bool:
    return answer.retry_after is not None and answer.retry_after <= budget
