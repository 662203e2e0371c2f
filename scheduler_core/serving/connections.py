"""Connections of cheroot, bounded so that no client can keep a worker.

Differences from cheroot's defaults:

- The TLS handshake runs on a worker thread. On the accepting thread each silent client would block all others
  for the whole timeout.
- Slow requests, and responses that the client does not read, are cut off as a whole (`server.cut_off`);
  cheroot's timeout is for the next byte.
- Heads are bounded, and refused if another program may read them differently.
- A client reads the response to what was refused, also if it still sends.
"""

from __future__ import annotations

import select
import socket
import time
from http import HTTPStatus
from typing import Any, ClassVar, Final

from cheroot.server import HTTPConnection, HTTPRequest

from scheduler_core.serving.heads import HeaderRejected, HeadLimits, read_headers
from scheduler_core.serving.stream import ClientReader, ClientWriter, RequestUnreadable
from scheduler_core.serving.tls import client_name

LINGER_MILLISECONDS: Final = 250
DRAIN_READS: Final = 1024
# Bytes of each: a record of TLS has no more.
DRAIN_BYTES: Final = 16 << 10
DRAIN_SECONDS: Final = 1.0


class BoundedRequest(HTTPRequest):
    """A request with a bounded head; tells its connection whether part of the body is left unread."""

    limits: ClassVar[HeadLimits]

    def header_reader(self, rfile: Any, found: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """The headers. Raises HeaderRejected, RequestUnreadable and OSError."""
        return read_headers(rfile, found, self.limits)

    def read_request_line(self) -> bool:
        """Whether there is a valid request line; the client is told what is wrong with another one."""
        self.conn.rfile.begin_request()
        whole, self.rfile.maxlen = self.rfile.maxlen, self.limits.first_line
        try:
            good = bool(super().read_request_line())  # type: ignore[no-untyped-call]
        except RequestUnreadable as error:
            return self._refuse(error)
        except ValueError:
            # Raised by urllib for an invalid URL.
            return self._refuse(HeaderRejected(400, "Malformed Request-URI"))
        self.rfile.maxlen = whole
        return good

    def read_request_headers(self) -> bool:
        """Whether the headers are valid; the client is told what is wrong with others."""
        try:
            good = bool(super().read_request_headers())  # type: ignore[no-untyped-call]
            if good and b"Transfer-Encoding" in self.inheaders:
                self.check_encoding(self.inheaders[b"Transfer-Encoding"])
        except (HeaderRejected, RequestUnreadable) as error:
            return self._refuse(error)
        return good

    def check_encoding(self, coding: bytes) -> None:
        """Raises HeaderRejected for transfer encodings that are not accepted."""
        if not (self.chunked_read and coding.lower() == b"chunked"):
            raise HeaderRejected(400, "Transfer-Encoding must be chunked, and of HTTP/1.1")

    def _refuse(self, error: HeaderRejected | RequestUnreadable) -> bool:
        status = HTTPStatus(error.status if isinstance(error, HeaderRejected) else 400)
        self.simple_response(f"{status.value} {status.phrase}", str(error))
        return False

    def send_headers(self) -> None:
        """From here on the worker waits for the client to read."""
        refused = int(self.status[:3]) >= 400
        left = bool(getattr(self.rfile, "remaining", 0))
        # The rest of the body would be taken for the next request, and is not worth reading.
        if (b"Connection", b"close") in self.outheaders or left:
            self.close_connection = True
        self.conn.asked = self.conn.asked or not refused
        self.conn.wait_for_client()
        self.conn.wfile.hold()
        super().send_headers()
        self.conn.unread = self.close_connection and (refused or left)

    def respond(self) -> None:
        """Send the whole response."""
        super().respond()
        self.conn.wfile.flush()

    def simple_response(self, status: str, msg: str = "") -> None:
        """Send a response to a request that was not read to its end."""
        self.conn.unread = True
        super().simple_response(status, msg)
        self.conn.wfile.flush()


class BoundedConnection(HTTPConnection):
    """A connection with a handshake on the worker, and a drain after a refused request.

    `waiting_since`: since when, on the monotonic clock, a worker waits for this client to send or to read;
    None while it does not. `client`: the common name of its certificate; None without one. `asked`: whether a
    request was answered. `idle_until`: until when the connection is kept without a worker.
    """

    RequestHandlerClass = BoundedRequest
    shaken = False
    client: str | None = None
    unread = False
    asked = False
    idle_until = 0.0
    waiting_since: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rfile, self.wfile = ClientReader(self.socket), ClientWriter(self.socket)
        self.readable = select.poll()
        self.readable.register(self.socket, select.POLLIN)

    def communicate(self) -> bool:
        """Serve the client, which has sent something; whether the connection stays."""
        self.wait_for_client()
        self.server.active.add(self)
        try:
            return self.serve() if self.shaken or self.server.ssl_adapter is None else self._shake()
        finally:
            self.server.active.discard(self)
            self.waiting_since = None

    def wait_for_client(self) -> None:
        """Start the client's time: the worker waits for it from now on."""
        self.waiting_since = time.monotonic()

    def body_read(self) -> None:
        """Stop the client's time: the whole body is read."""
        self.waiting_since = None

    def _shake(self) -> bool:
        """Do the handshake, then return the connection to the selector until a request arrives."""
        try:
            self.socket.do_handshake()
        except OSError:
            # A scanner, a probe, or a client that does not trust the certificate: there is nothing to answer.
            return False
        self.shaken = True
        self.client = client_name(self.socket)
        return True if not self.socket.pending() else self.serve()

    def serve(self) -> bool:
        """Answer one request, and further ones that follow soon while workers are free."""
        while True:
            try:
                keep = bool(super().communicate())  # type: ignore[no-untyped-call]
            except OSError:
                # The reason is logged already.
                keep = False
            if not keep:
                if self.unread:
                    self.drain()
                return False
            if not self.another_comes():
                return True
            self.wait_for_client()

    def another_comes(self) -> bool:
        """Whether another request arrives within LINGER_MILLISECONDS while enough workers are free."""
        self.waiting_since = None
        if self.rfile.has_data() or (self.shaken and self.socket.pending()):
            return True
        server = self.server
        if not server.ready or len(server.active) > server.lingering or server.requests.qsize:
            return False
        return bool(self.readable.poll(LINGER_MILLISECONDS))

    def give_up(self) -> None:
        """Shut the socket down, which wakes the thread that waits for this client."""
        try:
            # Below TLS, whose state belongs to that thread.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            return

    def drain(self) -> None:
        """Read on for a moment; otherwise the client gets a reset before it reads the response."""
        until = time.monotonic() + DRAIN_SECONDS
        try:
            self.wfile.flush()
            self.socket.settimeout(0.1)
            for _ in range(DRAIN_READS):
                if time.monotonic() > until or not self.socket.recv(DRAIN_BYTES):
                    return
        except (OSError, ValueError):
            return
