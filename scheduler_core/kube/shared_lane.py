"""HTTP/2 in the writer's hands: one connection for every job, each of which is answered when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from scheduler_core.kube.answers import Answer
from scheduler_core.kube.connection import MAX_IDLE_SECONDS, Connection, Use
from scheduler_core.kube.conversation import MOST_STREAMS, Conversation
from scheduler_core.kube.exchange import Encoded, Job, Lane
from scheduler_core.kube.fields import RequestFields
from scheduler_core.kube.session import Session

# Events may never hold up a binding: so many at once.
LATER_STREAMS: Final = MOST_STREAMS // 3
# Where an answer takes so long, or an idle connection has said nothing for so long, the server is asked for a
# sign of life. One that works gives it at once, however long it takes over a request; one that does not give
# it so many seconds later is not there any more.
SUSPICIOUS_SECONDS: Final = 1.5
IDLE_SECONDS: Final = 3.0
SIGN_SECONDS: Final = 4.0
# Where a read brought so much, there is more.
_MUCH: Final = 1 << 15


class SharedLane(Lane):
    """Any number of jobs up to what the server allows."""

    def __init__(self, connection: Connection, session: Session) -> None:
        super().__init__(connection, session)
        self._conversation = Conversation()
        # By stream, the longest under way first: the job, and when it began.
        self._jobs: dict[int, tuple[Job, float]] = {}
        # When it was last known to live, and, where it rests, until when it may.
        self._lived = 0.0
        self._rests_until = inf
        self._later = 0
        self._identity: tuple[tuple[str, str], ...] = ()
        self._fields = RequestFields(session.authority, ())
        self._base = session.endpoint.base_path

    @property
    def broken(self) -> bool:
        """Whether the server said what is not HTTP/2."""
        return self._conversation.broken is not None

    @property
    def under_way(self) -> int:
        return len(self._jobs)

    @property
    def usable(self) -> bool:
        return not self._conversation.retired

    def greet(self) -> None:
        """Say first what a client has to say. Raises OSError."""
        self.wire.write(self._conversation.take_out())

    def room(self, urgent: bool) -> int:
        """How many more jobs it takes now."""
        if self.wire.unsent:
            return 0
        room = self._conversation.room
        return room if urgent else min(room, LATER_STREAMS - self._later)

    def retire(self) -> None:
        self._conversation.retire()

    def encode(self, job: Job) -> Encoded | None:
        request = job.made()
        identity = self.session.identity()
        if identity != self._identity:
            self._identity, self._fields = identity, RequestFields(self.session.authority, identity)
        path, body = self._base + request.path, request.body
        block = self._fields.block(request.method, path, request.content_type, len(body))
        return (block, body) if self._conversation.fits(block, body) else None

    def begin(self, encoded: Sequence[tuple[Job, Encoded]], now: float) -> None:
        for job, (block, body) in encoded:
            self._jobs[self._conversation.send(block, body)] = job, now
            self._later += not job.urgent
        self._rests_until = inf
        self._set_deadline()
        self._send([job for job, _ in encoded], self._conversation.take_out())

    def answers(self, now: float) -> Iterator[tuple[Job, Answer | Exception]]:
        size = _MUCH
        while size >= _MUCH:
            try:
                data = self.wire.read()
            except BlockingIOError:
                return
            except OSError:
                self._conversation.close()
                raise
            size = len(data)
            if not data:
                self._conversation.close()
                if self._jobs:
                    raise ConnectionResetError("the server closed the connection without an answer")
                return
            for stream, outcome in self._conversation.feed(data):
                yield self._ended(stream), outcome
            if self._conversation.broken is not None:
                raise self._conversation.broken
            if self.asked is not None and not self._conversation.ping_due:
                self.asked, self._lived = None, now
                self._set_deadline()
            if reply := self._conversation.take_out():
                self.wire.write(reply)

    def expire(self, now: float) -> list[Job]:
        """Jobs whose answers take too long, given up; asks for a sign of life where one is due."""
        begun_before = now - self.session.limits.read
        overdue = [stream for stream, (_, begun) in self._jobs.items() if begun < begun_before]
        for stream in overdue:
            self._conversation.cancel(stream)
        jobs = [self._ended(stream) for stream in overdue]
        if self.asked is None and now >= self._questionable_at():
            self._conversation.ping()
            self.asked = now
            self._set_deadline()
        if out := self._conversation.take_out():
            try:
                self.wire.write(out)
            except OSError:
                self.deadline = 0.0
        return jobs

    def rest(self, now: float) -> None:
        self.connection.use = Use.IDLE
        if self._rests_until == inf:
            self._lived, self._rests_until = now, now + MAX_IDLE_SECONDS
            self._set_deadline()

    def _questionable_at(self) -> float:
        """From when on nobody knows whether the server still hears us, and answers."""
        if not self._jobs:
            return self._lived + IDLE_SECONDS
        _, oldest = next(iter(self._jobs.values()))
        return max(oldest, self._lived) + SUSPICIOUS_SECONDS

    def _set_deadline(self) -> None:
        self.deadline = min(self._rests_until, inf if self.asked is None else self.asked + SIGN_SECONDS)

    def abandon(self) -> list[Job]:
        if self.asked is not None:
            # Silent; if it was so from the beginning, the next one had better speak HTTP/1.1.
            self._conversation.close()
        left = [job for job, _ in self._jobs.values()]
        self._jobs.clear()
        self._later = 0
        return left

    def _ended(self, stream: int) -> Job:
        job, _ = self._jobs.pop(stream)
        self._later -= not job.urgent
        return job
