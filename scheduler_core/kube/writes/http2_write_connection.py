"""Write connection over HTTP/2: concurrent writes, answered in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from scheduler_core.kube.http.connection import MAX_IDLE_SECONDS, Connection, Use
from scheduler_core.kube.http.http2_connection import MOST_STREAMS, Http2Connection
from scheduler_core.kube.http.http2_headers import RequestHeaders
from scheduler_core.kube.http.response_parser import ApiResponse
from scheduler_core.kube.http.session import Session
from scheduler_core.kube.writes.write_connection import Encoded, QueuedWrite, WriteConnection

# Events must not delay bindings: concurrent streams for events.
MAX_EVENT_STREAMS: Final = MOST_STREAMS // 3
# After this many seconds without a response, or of silence on an idle connection, a PING is sent. A server
# acknowledges a PING at once, however long a request takes. Without an acknowledgement within the timeout the
# connection is dead.
RESPONSE_PING_SECONDS: Final = 1.5
IDLE_PING_SECONDS: Final = 3.0
PING_TIMEOUT_SECONDS: Final = 4.0
# After a read of this size there is usually more to read.
_MUCH: Final = 1 << 15


class Http2WriteConnection(WriteConnection):
    """Carries as many writes as the server allows. `alive_at`: when it was last known to be alive."""

    def __init__(self, http_connection: Connection, session: Session) -> None:
        super().__init__(http_connection, session)
        self._http2 = Http2Connection()
        # By stream, the oldest first: the write, and when it was sent.
        self._jobs: dict[int, tuple[QueuedWrite, float]] = {}
        self.alive_at = 0.0
        # Until when the connection may stay idle.
        self._idle_until = inf
        self._low_priority = 0
        self._identity: tuple[tuple[str, str], ...] = ()
        self._fields = RequestHeaders(session.endpoint.authority, ())
        self._base = session.endpoint.base_path

    @property
    def broken(self) -> bool:
        """Whether the server violated HTTP/2."""
        return self._http2.broken is not None

    @property
    def in_flight(self) -> int:
        return len(self._jobs)

    @property
    def usable(self) -> bool:
        return not self._http2.draining

    def send_preface(self) -> None:
        """Send the connection preface. Raises OSError."""
        self.transport.write(self._http2.data_to_send())

    def capacity(self, urgent: bool) -> int:
        """The number of writes that can be sent now."""
        if self.transport.unsent:
            return 0
        capacity = self._http2.capacity
        return capacity if urgent else min(capacity, MAX_EVENT_STREAMS - self._low_priority)

    def drain(self) -> None:
        self._http2.drain()

    def encode(self, job: QueuedWrite) -> Encoded | None:
        request = job.http_request()
        identity = self.session.identity()
        if identity != self._identity:
            self._identity, self._fields = identity, RequestHeaders(self.session.endpoint.authority, identity)
        path, body = self._base + request.path, request.body
        block = self._fields.block(request.method, path, request.content_type, len(body))
        return (block, body) if self._http2.fits(block, body) else None

    def send(self, encoded: Sequence[tuple[QueuedWrite, Encoded]], now: float) -> None:
        for job, (block, body) in encoded:
            self._jobs[self._http2.send(block, body)] = job, now
            self._low_priority += not job.urgent
        self._idle_until = inf
        self._set_deadline()
        self._send([job for job, _ in encoded], self._http2.data_to_send())

    def responses(self, now: float) -> Iterator[tuple[QueuedWrite, ApiResponse | Exception]]:
        size = _MUCH
        while size >= _MUCH:
            try:
                data = self.transport.read()
            except BlockingIOError:
                return
            except OSError:
                self._http2.close()
                raise
            size = len(data)
            if not data:
                self._http2.close()
                if self._jobs:
                    raise ConnectionResetError("the server closed the connection without an answer")
                return
            for stream, outcome in self._http2.receive_data(data):
                yield self._remove(stream), outcome
            if self._http2.broken is not None:
                raise self._http2.broken
            if self.ping_sent_at is not None and not self._http2.ping_outstanding:
                self.ping_sent_at, self.alive_at = None, now
                self._set_deadline()
            if reply := self._http2.data_to_send():
                self.transport.write(reply)

    def expire(self, now: float) -> list[QueuedWrite]:
        """Writes that exceed the read timeout, removed; also sends a PING that is due."""
        begun_before = now - self.session.limits.read
        overdue = [stream for stream, (_, begun) in self._jobs.items() if begun < begun_before]
        for stream in overdue:
            self._http2.cancel(stream)
        jobs = [self._remove(stream) for stream in overdue]
        if self.ping_sent_at is None and now >= self._ping_due_at():
            self._http2.ping()
            self.ping_sent_at = now
            self._set_deadline()
        if out := self._http2.data_to_send():
            try:
                self.transport.write(out)
            except OSError:
                self.deadline = 0.0
        return jobs

    def set_idle(self, now: float) -> None:
        self.http_connection.use = Use.IDLE
        if self._idle_until == inf:
            self.alive_at, self._idle_until = now, now + MAX_IDLE_SECONDS
            self._set_deadline()

    def _ping_due_at(self) -> float:
        """When a PING is to be sent."""
        if not self._jobs:
            return self.alive_at + IDLE_PING_SECONDS
        _, oldest = next(iter(self._jobs.values()))
        return max(oldest, self.alive_at) + RESPONSE_PING_SECONDS

    def _set_deadline(self) -> None:
        self.deadline = min(
            self._idle_until, inf if self.ping_sent_at is None else self.ping_sent_at + PING_TIMEOUT_SECONDS
        )

    def abandon(self) -> list[QueuedWrite]:
        if self.ping_sent_at is not None:
            # Dead. If the server never sent anything, the next connection uses HTTP/1.1.
            self._http2.close()
        left = [job for job, _ in self._jobs.values()]
        self._jobs.clear()
        return left

    def _remove(self, stream: int) -> QueuedWrite:
        job, _ = self._jobs.pop(stream)
        self._low_priority -= not job.urgent
        return job
