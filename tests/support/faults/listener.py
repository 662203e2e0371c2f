"""A threaded HTTP server on loopback whose open connections can be broken at any moment."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any

from tests.support.stand_in_server import StandInHandler, StandInServer


class Listener(StandInServer):
    """Serves `handler` on `port` (0: any) from its start to `close`; `context` makes it TLS."""

    block_on_close = False

    def __init__(
        self, port: int, handler: type[StandInHandler], context: ssl.SSLContext | None = None
    ) -> None:
        self.context = context
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(handler, port)

    def opened(self) -> None:
        """A connection was made."""

    def finish_request(self, request: Any, client_address: Any) -> None:
        connection = request
        try:
            if self.context is not None:
                connection = self.context.wrap_socket(request, server_side=True)
            with self._lock:
                self._open.add(connection)
            self.opened()
            self.RequestHandlerClass(connection, client_address, self)
        except OSError:
            return
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def break_connections(self) -> None:
        """Break what is open; go on listening."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            try:
                # Below TLS, so that the peer sees no orderly end.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        """Stop listening and break every connection."""
        self.shutdown()
        self.server_close()
        self.break_connections()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""
