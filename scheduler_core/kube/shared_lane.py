"""HTTP/2 in the writer's hands: one connection for every job, each of which is answered when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scheduler_core.kube.answers import Answer
from scheduler_core.kube.connection import Connection
from scheduler_core.kube.conversation import MOST_STREAMS, Conversation
from scheduler_core.kube.exchange import Encoded, Job, Lane
from scheduler_core.kube.fields import RequestFields
from scheduler_core.kube.session import Session

# Events may never hold up a binding: so many at once.
LATER_STREAMS: Final = MOST_STREAMS // 3
# Where a read brought so much, there is more.
_MUCH: Final = 1 << 15


class SharedLane(Lane):
    """Any number of jobs up to what the server allows."""

    def __init__(self, connection: Connection, session: Session) -> None:
        super().__init__(connection, session)
        self._conversation = Conversation()
        # By stream, the longest under way first: the job, and until when its answer is waited for.
        self._jobs: dict[int, tuple[Job, float]] = {}
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
        until = now + self.session.limits.read
        for job, (block, body) in encoded:
            self._jobs[self._conversation.send(block, body)] = job, until
            self._later += not job.urgent
        self.deadline = until
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
            # As long as the server says something, the connection lives.
            self.deadline = now + self.session.limits.read
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
            if reply := self._conversation.take_out():
                self.wire.write(reply)

    def expire(self, now: float) -> list[Job]:
        """Jobs whose answers take too long, given up."""
        overdue = [stream for stream, (_, until) in self._jobs.items() if until < now]
        for stream in overdue:
            self._conversation.cancel(stream)
        jobs = [self._ended(stream) for stream in overdue]
        if jobs:
            try:
                self.wire.write(self._conversation.take_out())
            except OSError:
                self.deadline = 0.0
        return jobs

    def abandon(self) -> list[Job]:
        left = [job for job, _ in self._jobs.values()]
        self._jobs.clear()
        self._later = 0
        return left

    def _ended(self, stream: int) -> Job:
        job, _ = self._jobs.pop(stream)
        self._later -= not job.urgent
        return job
