"""A write, and the connection that carries it in the writer's hands; over HTTP/1.1 one after the other."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from scheduler_core.errors import MusterError
from scheduler_core.kube.answers import Answer, Answering
from scheduler_core.kube.connection import MAX_IDLE_SECONDS, Connection, Use
from scheduler_core.kube.requests import Request, SingleWrite, request_for
from scheduler_core.kube.session import Session

log = logging.getLogger(__name__)

Done = Callable[[MusterError | None], None]
# A request as its protocol has it: HTTP/2's header fields and the body, or nothing and all of it.
Encoded = tuple[bytes, bytes]


class Rank(IntEnum):
    """What goes before what: whatever is decided, what is said on objects, and events."""

    URGENT = 0
    CONDITION = 1
    EVENT = 2


class Job:
    """A write, what to tell its outcome to, and its request once it was made."""

    __slots__ = ("done", "rank", "request", "urgent", "write")

    def __init__(self, write: SingleWrite, done: Done, rank: Rank) -> None:
        self.write = write
        self.done = done
        self.rank = rank
        self.urgent = rank is Rank.URGENT
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

    `blocked`: the rest of what was begun last waits until the socket takes more. `asked`: since when a sign
    of life is waited for.
    """

    def __init__(self, connection: Connection, session: Session) -> None:
        self.connection = connection
        self.wire = connection.wire
        self.session = session
        self.deadline = 0.0
        self.blocked = False
        self.asked: float | None = None
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
        self.connection.use = Use.IDLE
        self.deadline = now + MAX_IDLE_SECONDS

    def undelivered(self) -> Sequence[Job]:
        """Jobs begun last that the server cannot have got whole."""
        if self.wire.sent == self._sent_before:
            return self._last
        return self._last[-1:] if self.wire.sent < self._sent_after else ()

    def _send(self, jobs: Sequence[Job], payload: bytes) -> None:
        self.connection.use = Use.LANE
        self._last, self._sent_before = jobs, self.wire.sent
        try:
            self.wire.write(payload)
        finally:
            self._sent_after = self.wire.sent + self.wire.unsent


class SerialLane(Lane):
    """HTTP/1.1: one job at a time."""

    def __init__(self, connection: Connection, session: Session) -> None:
        super().__init__(connection, session)
        self.urgent = True
        self._job: Job | None = None
        self._reusable = True
        self._answering = Answering()

    @property
    def under_way(self) -> int:
        return int(self._job is not None)

    @property
    def usable(self) -> bool:
        return self._reusable and not self.wire.unsent

    def encode(self, job: Job) -> Encoded:
        request = job.made()
        return b"", self.session.encode(request.method, request.path, request.body, request.content_type)

    def begin(self, encoded: Sequence[tuple[Job, Encoded]], now: float) -> None:
        ((job, (_, whole)),) = encoded
        self._job, self.urgent = job, job.urgent
        self._answering = Answering()
        # Nobody can ask such a connection whether it lives, and what became of the write can be found out.
        self.deadline = now + min(self.session.limits.read, self.session.limits.silence)
        self._send([job], whole)

    def answers(self, now: float) -> Iterator[tuple[Job, Answer | Exception]]:
        while True:
            try:
                data = self.wire.read()
            except BlockingIOError:
                return
            job = self._job
            if job is None:
                # Its end, or something that nobody asked for.
                self.retire()
                return
            found = self._answering.feed(data) if data else (self._answering.end(), False)
            if found is not None:
                self._job = None
                answer, reusable = found
                self._reusable = self._reusable and reusable
                yield job, answer
                return

    def retire(self) -> None:
        self._reusable = False

    def abandon(self) -> list[Job]:
        left, self._job = [self._job] if self._job is not None else [], None
        return left
