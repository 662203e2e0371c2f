"""Servers of cheroot that no client can block.

- A new connection gets a worker only once it sends something.
- If clients keep all workers waiting while others queue, the longest waits are cut off first.
- If there are too many connections, those that never sent a request are closed first. Connections with an
  answered request may be idle for longer than API servers keep them.
"""

from __future__ import annotations

import logging
import resource
import socket
import sys
import threading
import time
from typing import Any, ClassVar, Final

from cheroot import wsgi

from scheduler_core.serving.connections import BoundedConnection
from scheduler_core.serving.idle_connections import IdleConnections
from scheduler_core.serving.tls import CLIENT

REQUEST_SECONDS: Final = 8.0
PRESSED_SECONDS: Final = 1.0
PRESSED_AT_ONCE: Final = 16
MAX_CONNECTIONS: Final = 4096
# Descriptors that are not for clients.
SPARE_DESCRIPTORS: Final = 64


class BoundedGateway(wsgi.Gateway_10):
    """The WSGI gateway: tells the application who the client is."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        """The environ, with CLIENT."""
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        environ[CLIENT] = self.req.conn.client
        return environ


class BoundedServer(wsgi.Server):
    """cheroot with these connections; `active` are the connections that have a worker."""

    ConnectionClass = BoundedConnection
    log: ClassVar[logging.Logger]
    _connections: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.active: set[BoundedConnection] = set()
        # Workers that may wait for the next request of their client; the others are for new connections.
        self.lingering = self.requests.min // 2
        self.limit = limit_of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def process_conn(self, conn: Any) -> None:
        """Let a connection that has sent nothing yet wait in the selector, which costs no thread."""
        if conn.last_used is None:
            self._connections.make_room(self.limit - len(self.active) - self.requests.qsize)
            self._connections.put(conn)
        else:
            super().process_conn(conn)

    def prepare(self) -> None:
        """Bind and listen. Raises OSError."""
        super().prepare()
        # A client that disappears before it is accepted must not block the others.
        self.socket.setblocking(False)
        # cheroot made them a moment ago, and has no way to replace them.
        self._connections._selector.close()  # noqa: SLF001
        self._connections = IdleConnections(self)

    def cut_off(self, now: float) -> None:
        """Close connections whose clients keep a worker waiting for too long."""
        waiting = [(since, conn) for conn in list(self.active) if (since := conn.waiting_since) is not None]
        waiting.sort(key=lambda entry: entry[0])
        wanted = max(self.requests.qsize, PRESSED_AT_ONCE) if self.requests.qsize else 0
        for position, (since, conn) in enumerate(waiting):
            limit = PRESSED_SECONDS if position < wanted else REQUEST_SECONDS
            if since < now - limit:
                conn.give_up()

    def cut_off_until(self, stopped: threading.Event, interval: float = 0.25) -> None:
        """Cut off slow clients every `interval` seconds until stopped; runs on a thread of its own."""
        while not stopped.wait(interval):
            self.cut_off(time.monotonic())

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: Any) -> socket.socket:
        """Close the socket if the address is in use, which cheroot does not."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Log what cheroot reports; a client that disconnects is one line at DEBUG."""
        if isinstance(sys.exception(), OSError):
            level, traceback = logging.DEBUG, False
        elif not traceback:
            level = min(level, logging.DEBUG)
        text = " ".join(str(msg).split())
        self.log.log(min(level, logging.WARNING), "client: %s", text, exc_info=traceback)


def limit_of(descriptors: int) -> int:
    """The maximum number of connections in a process that may open `descriptors` files."""
    return min(MAX_CONNECTIONS, descriptors - min(SPARE_DESCRIPTORS, descriptors // 2))
