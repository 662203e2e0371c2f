"""Connections of the writer: which are idle, and how many writes each carries.

A server that supports HTTP/2 gets one connection for all writes; any other server gets several HTTP/1.1
connections.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.http.connection import Use
from scheduler_core.kube.http.endpoint import HTTP_1, HTTP_2
from scheduler_core.kube.http.session import Session
from scheduler_core.kube.writes.http2_write_connection import Http2WriteConnection
from scheduler_core.kube.writes.write_connection import (
    Encoded,
    Http1WriteConnection,
    QueuedWrite,
    WriteConnection,
)

# Events must not delay bindings: connections for events.
MAX_EVENT_CONNECTIONS: Final = 8
# After a violation of HTTP/2 new connections use HTTP/1.1 for this time: a proxy in between may not support
# HTTP/2.
_PLAIN_SECONDS: Final = 60.0
# The variable that disables HTTP/2 in programs with client-go.
_WITHOUT_HTTP_2: Final = "DISABLE_HTTP2"


class WriterConnections:
    """At most `most` connections, registered for reading with `selector`; for the writer's thread only."""

    def __init__(
        self,
        session: Session,
        selector: selectors.BaseSelector,
        most: int,
        monotonic: Callable[[], float],
    ) -> None:
        self._session = session
        self._selector = selector
        self._most = most
        self._monotonic = monotonic
        self._open: set[WriteConnection] = set()
        self._idle: list[Http1WriteConnection] = []
        self._http2: Http2WriteConnection | None = None
        self._protocols = (HTTP_1,) if os.environ.get(_WITHOUT_HTTP_2) else (HTTP_2, HTTP_1)
        self._low_priority_busy = 0
        self._plain_until = 0.0

    @property
    def expected_responses(self) -> int:
        """The number of expected responses, at least: an HTTP/1.1 connection counts as one."""
        shared = self._http2.in_flight if self._http2 is not None else 0
        return shared + self._busy

    @property
    def _busy(self) -> int:
        """HTTP/1.1 connections with a write in flight."""
        return len(self._open) - len(self._idle) - (self._http2 is not None)

    def capacity(self, urgent: bool) -> int:
        """A lower bound of the writes that may be sent now."""
        if self._http2 is not None:
            return self._http2.capacity(urgent)
        free = self._most - self._busy
        return free if urgent else min(free, MAX_EVENT_CONNECTIONS - self._low_priority_busy)

    def batch_size(self, waiting: int, urgent: bool) -> int:
        """The number of waiting writes that the next connection with capacity takes."""
        return min(waiting, self._http2.capacity(urgent)) if self._http2 is not None else 1

    def take(self) -> WriteConnection:
        """The connection for the next writes, a new one if necessary. Raises OSError, KubeconfigError."""
        if self._http2 is not None:
            return self._http2
        return self._idle[-1] if self._idle else self._opened()

    def send(self, connection: WriteConnection, encoded: list[tuple[QueuedWrite, Encoded]]) -> None:
        """Send writes, all urgent or none, on the connection that was taken. Raises OSError."""
        if isinstance(connection, Http1WriteConnection):
            self._idle.remove(connection)
            self._low_priority_busy += not encoded[0][0].urgent
        connection.send(encoded, self._monotonic())
        self.update_interest(connection)

    def update_interest(self, connection: WriteConnection) -> None:
        """Have the selector report when the socket takes unsent bytes."""
        if connection.blocked != bool(connection.transport.unsent):
            connection.blocked = not connection.blocked
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.blocked else 0)
            self._selector.modify(connection.transport, events, connection)

    def release(self, connection: WriteConnection) -> None:
        """After responses were read: keep, idle or close the connection."""
        if connection is self._http2 and not connection.usable:
            self._http2 = None
        if connection.in_flight:
            return
        if not connection.usable:
            self.drop(connection)
            return
        connection.set_idle(self._monotonic())
        if isinstance(connection, Http1WriteConnection) and connection not in self._idle:
            self._idle.append(connection)
            self._low_priority_busy -= not connection.urgent

    def drop(self, connection: WriteConnection) -> list[QueuedWrite]:
        """Close a connection; returns its writes without a response."""
        left = connection.abandon()
        self._open.remove(connection)
        if isinstance(connection, Http2WriteConnection):
            self._http2 = None if connection is self._http2 else self._http2
            if connection.broken:
                self._plain_until = self._monotonic() + _PLAIN_SECONDS
        else:
            assert isinstance(connection, Http1WriteConnection)
            if connection in self._idle:
                self._idle.remove(connection)
            else:
                self._low_priority_busy -= not connection.urgent
        self._selector.unregister(connection.transport)
        connection.http_connection.close()
        return left

    def expire_all(self) -> list[QueuedWrite]:
        """Writes that timed out, removed; also closes connections at their deadlines."""
        now = self._monotonic()
        jobs: list[QueuedWrite] = []
        for connection in self.all():
            jobs += connection.expire(now)
            if connection.deadline < now:
                self._close_other_silent(connection, now)
                jobs += self.drop(connection)
            else:
                self.update_interest(connection)
        return jobs

    def _close_other_silent(self, connection: WriteConnection, now: float) -> None:
        """After a connection timed out, close others that have received nothing since."""
        if connection.ping_sent_at is not None:
            since = time.monotonic() - (now - connection.ping_sent_at)
            self._session.connections.close_silent(since, Use.IDLE, Use.STREAM, Use.EXCHANGE)
        elif connection.in_flight:
            self._session.report_silence(time.monotonic() - self._session.limits.silence)

    def drain_all(self) -> None:
        """Use no open connection for further writes. After a handshake without an answer nobody knows which
        of them are alive: what they received before that is read only now.
        """
        for connection in self.all():
            connection.drain()
            self.release(connection)

    def all(self) -> list[WriteConnection]:
        """Every open connection."""
        return list(self._open)

    def _opened(self) -> WriteConnection:
        """A new, idle connection."""
        plain = self._monotonic() < self._plain_until
        http_connection = self._session.new_connection((HTTP_1,) if plain else self._protocols)
        try:
            self._session.open(http_connection)
            http_connection.transport.wait(0)
            connection: WriteConnection
            if http_connection.transport.protocol == HTTP_2:
                connection = shared = Http2WriteConnection(http_connection, self._session)
                shared.send_preface()
                self._http2 = shared
            else:
                connection = serial = Http1WriteConnection(http_connection, self._session)
                self._idle.append(serial)
        except BaseException:
            http_connection.close()
            raise
        connection.set_idle(self._monotonic())
        self._open.add(connection)
        self._selector.register(connection.transport, selectors.EVENT_READ, connection)
        return connection
