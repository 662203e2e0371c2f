"""A write, and the connection that carries it in the writer's hands: answers in the order of the requests."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from scheduler_core.errors import MusterError
from scheduler_core.kube.answers import SUCCESS, Answer, plain_success, read_answer
from scheduler_core.kube.connection import MAX_IDLE_SECONDS, Connection
from scheduler_core.kube.requests import Request, SingleWrite, request_for
from scheduler_core.kube.session import Session

log = logging.getLogger(__name__)

Done = Callable[[MusterError | None], None]
# A request as its protocol has it: HTTP/2's header fields and the body, or nothing and all of it.
Encoded = tuple[bytes, bytes]

# Requests that go out in one piece, one behind the other on one connection, where more wait than there are
# connections: the second costs a third of the first.
TOGETHER: Final = 4


class Job:
    """A write, what to tell its outcome to, and its request once it was made."""

    __slots__ = ("done", "request", "urgent", "write")

    def __init__(self, write: SingleWrite, done: Done, urgent: bool) -> None:
        self.write = write
        self.done = done
        self.urgent = urgent
        self.request: Request | None = None

    def made(self) -> Request:
        """Its request."""
        request = self.request = self.request or request_for(self.write)
        return request

    def tell(self, error: MusterError | None) -> None:
        """Tell the outcome; a consumer that fails harms nobody else."""
        try:
            self.done(error)
        except Exception:
            log.exception("the consumer of a write's outcome failed")


class Lane(ABC):
    """An open connection with the jobs that are under way on it, none while it rests; closed at `deadline`.

    `blocked`: the rest of what was begun last waits until the socket takes more.
    """

    def __init__(self, connection: Connection, session: Session) -> None:
        self.connection = connection
        self.wire = connection.wire
        self.session = session
        self.deadline = 0.0
        self.blocked = False
        self._last: Sequence[Job] = ()
        self._sent_before = self._sent_after = 0

    @property
    @abstractmethod
    def under_way(self) -> int:
        """Jobs that wait for an answer."""

    @property
    @abstractmethod
    def usable(self) -> bool:
        """Whether it may be given more jobs, now or later."""

    @abstractmethod
    def encode(self, job: Job) -> Encoded | None:
        """What `begin` takes for a job, None if the lane cannot carry it. Raises MusterError."""

    @abstractmethod
    def begin(self, encoded: Sequence[tuple[Job, Encoded]], now: float) -> None:
        """Send these. Raises OSError; `undelivered` tells what of it is safe to repeat."""

    @abstractmethod
    def answers(self, now: float) -> Iterator[tuple[Job, Answer | Exception]]:
        """Jobs that have ended, with an answer, NotBegun, or ConnectionResetError.

        Raises OSError, BrokenAnswer: the rest has no answer.
        """

    @abstractmethod
    def retire(self) -> None:
        """Not usable any more; jobs that are under way are waited for."""

    @abstractmethod
    def abandon(self) -> list[Job]:
        """Forget the jobs that are under way; which they were."""

    def expire(self, now: float) -> list[Job]:
        """Jobs that took too long and were given up, where the others can go on."""
        return []

    def rest(self, now: float) -> None:
        """Nothing is under way."""
        self.deadline = now + MAX_IDLE_SECONDS

    def undelivered(self) -> Sequence[Job]:
        """Jobs begun last that the server cannot have got whole."""
        if self.wire.sent == self._sent_before:
            return self._last
        return self._last[-1:] if self.wire.sent < self._sent_after else ()

    def _send(self, jobs: Sequence[Job], payload: bytes) -> None:
        self._last, self._sent_before = jobs, self.wire.sent
        try:
            self.wire.write(payload)
        finally:
            self._sent_after = self.wire.sent + self.wire.unsent


class SerialLane(Lane):
    """HTTP/1.1: at most TOGETHER jobs, all urgent or none, whose answers come one behind the other."""

    def __init__(self, connection: Connection, session: Session) -> None:
        super().__init__(connection, session)
        self.jobs: deque[Job] = deque()
        self.urgent = True
        self._reusable = True
        self._retired = False
        self._buffer = bytearray()

    @property
    def under_way(self) -> int:
        return len(self.jobs)

    @property
    def usable(self) -> bool:
        return self._reusable and not (self._retired or self._buffer or self.wire.unsent)

    @property
    def crowded(self) -> bool:
        """Whether it was given several jobs at once."""
        return len(self._last) > 1

    def encode(self, job: Job) -> Encoded:
        request = job.made()
        return b"", self.session.encode(request.method, request.path, request.body, request.content_type)

    def begin(self, encoded: Sequence[tuple[Job, Encoded]], now: float) -> None:
        jobs = [job for job, _ in encoded]
        self.jobs = deque(jobs)
        self.urgent = jobs[0].urgent
        self.deadline = now + self.session.limits.read * len(jobs)
        self._send(jobs, b"".join([whole for _, (_, whole) in encoded]))

    def answers(self, now: float) -> Iterator[tuple[Job, Answer | Exception]]:
        ended = False
        while True:
            found = self._take_answer(ended)
            if found is None:
                try:
                    chunk = self.wire.read()
                except BlockingIOError:
                    return
                self._buffer += chunk
                ended = not chunk
                if ended and not self.jobs:
                    self.retire()
                    return
                continue
            answer, self._reusable = found
            yield self.jobs.popleft(), answer
            if self.jobs and not self._reusable:
                raise ConnectionResetError("the server closed the connection after another answer")
            if not self.jobs:
                return

    def _take_answer(self, ended: bool) -> tuple[Answer, bool] | None:
        """The next answer, cut from the buffer, and whether the lane can be used again; None if bytes miss.

        Raises BrokenAnswer, ConnectionResetError.
        """
        if not self._buffer or not self.jobs:
            if ended and self.jobs:
                raise ConnectionResetError("the server closed the connection without an answer")
            return None
        size = plain_success(self._buffer)
        if not size:
            return read_answer(self._buffer, ended=ended)
        del self._buffer[:size]
        return SUCCESS, not ended

    def retire(self) -> None:
        self._retired = True

    def abandon(self) -> list[Job]:
        left, self.jobs = list(self.jobs), deque()
        return left
