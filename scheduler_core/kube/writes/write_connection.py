"""A queued write, and the connection that carries it: the interface, and its implementation for HTTP/1.1."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from scheduler_core.errors import MusterError
from scheduler_core.kube.http.connection import MAX_IDLE_SECONDS, Connection, Use
from scheduler_core.kube.http.response_parser import ApiResponse, ResponseParser
from scheduler_core.kube.http.session import Session
from scheduler_core.kube.requests import Request, SingleWrite, request_for

log = logging.getLogger(__name__)

Done = Callable[[MusterError | None], None]
# An encoded request: header block and body for HTTP/2; nothing and all bytes for HTTP/1.1.
Encoded = tuple[bytes, bytes]


class WritePriority(IntEnum):
    """Order of writes: decisions, then conditions, then Events."""

    URGENT = 0
    CONDITION = 1
    EVENT = 2


class QueuedWrite:
    """A write, the callback for its outcome, and its HTTP request once it was built."""

    __slots__ = ("done", "priority", "request", "urgent", "write")

    def __init__(self, write: SingleWrite, done: Done, priority: WritePriority) -> None:
        self.write = write
        self.done = done
        self.priority = priority
        self.urgent = priority is WritePriority.URGENT
        self.request: Request | None = None

    def http_request(self) -> Request:
        """The HTTP request of the write."""
        request = self.request = self.request or request_for(self.write)
        return request

    def complete(self, error: MusterError | None) -> None:
        """Report the outcome; an exception of the callback is logged."""
        try:
            self.done(error)
        except Exception:
            log.exception("the consumer of a write's outcome failed")


class WriteConnection(ABC):
    """An open connection with the writes in flight on it; to be closed at `deadline`.

    `blocked`: the last bytes wait until the socket takes more. `ping_sent_at`: when an unacknowledged PING
    was sent.
    """

    def __init__(self, http_connection: Connection, session: Session) -> None:
        self.http_connection = http_connection
        self.transport = http_connection.transport
        self.session = session
        self.deadline = 0.0
        self.blocked = False
        self.ping_sent_at: float | None = None
        self._last: Sequence[QueuedWrite] = ()
        self._sent_before = self._sent_after = 0

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Writes that wait for a response."""

    @property
    @abstractmethod
    def usable(self) -> bool:
        """Whether it can carry more writes, now or later."""

    @abstractmethod
    def encode(self, job: QueuedWrite) -> Encoded | None:
        """The encoded request of a write, None if this connection cannot carry it. Raises MusterError."""

    @abstractmethod
    def send(self, encoded: Sequence[tuple[QueuedWrite, Encoded]], now: float) -> None:
        """Send these. Raises OSError; `undelivered` returns the writes that are safe to repeat."""

    @abstractmethod
    def responses(self, now: float) -> Iterator[tuple[QueuedWrite, ApiResponse | Exception]]:
        """Writes that have ended, with a response, RequestNotProcessed, or ConnectionResetError.

        Raises OSError, ProtocolError: the other writes have no response.
        """

    @abstractmethod
    def drain(self) -> None:
        """Accept no more writes; writes in flight are still answered."""

    @abstractmethod
    def abandon(self) -> list[QueuedWrite]:
        """Forget and return the writes in flight."""

    def expire(self, now: float) -> list[QueuedWrite]:
        """Writes that timed out, where the connection itself can still be used."""
        return []

    def set_idle(self, now: float) -> None:
        """Mark the connection as idle."""
        self.http_connection.use = Use.IDLE
        self.deadline = now + MAX_IDLE_SECONDS

    def undelivered(self) -> Sequence[QueuedWrite]:
        """The last writes that the server cannot have received completely."""
        if self.transport.sent == self._sent_before:
            return self._last
        return self._last[-1:] if self.transport.sent < self._sent_after else ()

    def _send(self, jobs: Sequence[QueuedWrite], payload: bytes) -> None:
        self.http_connection.use = Use.WRITES
        self._last, self._sent_before = jobs, self.transport.sent
        try:
            self.transport.write(payload)
        finally:
            self._sent_after = self.transport.sent + self.transport.unsent


class Http1WriteConnection(WriteConnection):
    """Carries one write at a time over HTTP/1.1."""

    def __init__(self, http_connection: Connection, session: Session) -> None:
        super().__init__(http_connection, session)
        self.urgent = True
        self._job: QueuedWrite | None = None
        self._reusable = True
        self._answering = ResponseParser()

    @property
    def in_flight(self) -> int:
        return int(self._job is not None)

    @property
    def usable(self) -> bool:
        return self._reusable and not self.transport.unsent

    def encode(self, job: QueuedWrite) -> Encoded:
        request = job.http_request()
        return b"", self.session.encode(request.method, request.path, request.body, request.content_type)

    def send(self, encoded: Sequence[tuple[QueuedWrite, Encoded]], now: float) -> None:
        ((job, (_, whole)),) = encoded
        self._job, self.urgent = job, job.urgent
        self._answering = ResponseParser()
        # HTTP/1.1 has no ping, and the outcome of the write can be read. So the timeout is short.
        self.deadline = now + min(self.session.limits.read, self.session.limits.silence)
        self._send([job], whole)

    def responses(self, now: float) -> Iterator[tuple[QueuedWrite, ApiResponse | Exception]]:
        while True:
            try:
                data = self.transport.read()
            except BlockingIOError:
                return
            job = self._job
            if job is None:
                # The server closed the connection, or sent unexpected bytes.
                self.drain()
                return
            found = self._answering.feed(data) if data else (self._answering.end(), False)
            if found is not None:
                self._job = None
                answer, reusable = found
                self._reusable = self._reusable and reusable
                yield job, answer
                return

    def drain(self) -> None:
        self._reusable = False

    def abandon(self) -> list[QueuedWrite]:
        left, self._job = [self._job] if self._job is not None else [], None
        return left
