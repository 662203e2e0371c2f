"""A TLS front of the scripted server that speaks HTTP/2 to clients that take it.

Requests are handed on over HTTP/1.1, and answered in the order in which the scripted server is done with
them.
"""

from __future__ import annotations

import socket
import ssl
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any

import trustme

from tests.support.faults.listener import Listener
from tests.support.faults.server import FaultServer
from tests.support.free_port import free_port
from tests.support.http2.conversation import HTTP_1, HTTP_2, Call, Conversation, Http2Faults, Reply, handed_on
from tests.support.stand_in_server import HOST, StandInHandler

_SECONDS = 10.0
_AT_ONCE = 16


class Http2Front(Http2Faults):
    """`with Http2Front(server) as front:` serves on a loopback port until the block ends.

    Offers `protocols`, and speaks HTTP/1.1 where nothing is agreed on. Where `server` closes without an
    answer, so does the front: the stream, or the connection of HTTP/1.1.
    """

    def __init__(
        self, server: FaultServer, *, protocols: tuple[str, ...] = (HTTP_2,), most_streams: int = 100
    ) -> None:
        super().__init__(most_streams)
        self._server = server
        authority = trustme.CA()
        self.ca = authority.cert_pem.bytes().decode()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_alpn_protocols(list(protocols))
        authority.issue_cert(HOST).configure_cert(self.context)
        self.port = 0
        self._conversations: set[Conversation] = set()
        self._asking: set[HTTPConnection] = set()

    def __enter__(self) -> Http2Front:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._workers = ThreadPoolExecutor(_AT_ONCE, "front")
        self._listener = _Listener(self.port or free_port(), self)
        self.port = self._listener.port
        self._listener.start()

    def kill(self) -> None:
        """Stop listening, break every connection, and leave no thread behind."""
        self._listener.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        with self.lock:
            asking = list(self._asking)
        for connection in asking:
            # A request that is on its way still arrives whole.
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RD)
        self._workers.shutdown()

    def cut(self) -> None:
        """Break every connection, whatever is under way, and go on listening."""
        self._listener.break_connections()

    def go_away(self) -> None:
        """Take no more requests on the connections there are, and answer what has come."""
        with self.lock:
            conversations = list(self._conversations)
        for conversation in conversations:
            conversation.go_away()

    def converse(self, connection: ssl.SSLSocket) -> None:
        """HTTP/2 on a new connection, until it ends. Raises OSError, ProtocolError."""
        conversation = Conversation(connection, self, self._hand_on)
        with self.lock:
            self.connections[HTTP_2] += 1
            self._conversations.add(conversation)
        try:
            conversation.run()
        finally:
            with self.lock:
                self._conversations.discard(conversation)

    def ask(self, call: Call) -> Reply | None:
        """The scripted server's answer, None if there is none."""
        connection = HTTPConnection(HOST, self._server.port, timeout=_SECONDS)
        with self.lock:
            self._asking.add(connection)
        try:
            return handed_on(connection, call)
        finally:
            with self.lock:
                self._asking.discard(connection)

    def _hand_on(self, call: Call, done: Callable[[Reply | None], None]) -> None:
        self._workers.submit(lambda: done(self.ask(call)))


class _Listener(Listener):
    # Their ends are waited for.
    daemon_threads = False
    block_on_close = True

    def __init__(self, port: int, front: Http2Front) -> None:
        self.front = front
        self._closing = False
        super().__init__(port, _serve, front.context)  # type: ignore[arg-type]

    def opened(self) -> None:
        # One that comes too late to be broken with the others.
        if self._closing:
            raise ConnectionAbortedError

    def close(self) -> None:
        self._closing = True
        self.shutdown()
        self.break_connections()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.front.violations.append(traceback.format_exc())


def _serve(connection: ssl.SSLSocket, address: Any, listener: _Listener) -> None:
    if connection.selected_alpn_protocol() == HTTP_2:
        listener.front.converse(connection)
    else:
        _Plain(connection, address, listener)


class _Plain(StandInHandler):
    """One connection of HTTP/1.1."""

    server: _Listener

    def setup(self) -> None:
        super().setup()
        with self.server.front.lock:
            self.server.front.connections[HTTP_1] += 1

    def _serve(self) -> None:
        front = self.server.front
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with front.lock:
            front.requests[HTTP_1] += 1
        reply = front.ask(Call(self.command, self.path, self.headers.items(), body))
        if reply is None:
            self.close_connection = True
            return
        self.send_response_only(reply.status)
        for name, value in reply.fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve
