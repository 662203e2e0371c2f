"""Connections of cheroot, bounded so that no client can block the others.

Differences from cheroot's defaults:

- The TLS handshake runs on a worker thread. On the accepting thread each silent client would block all others
  for the whole timeout.
- A new connection gets a worker only once it sends something.
- Slow requests, and responses that the client does not read, are cut off as a whole; cheroot's timeout is for
  the next byte. If clients keep all workers waiting while others queue, the longest waits are cut off first.
- If there are too many connections, those that never sent a request are closed first. Connections with an
  answered request may be idle for longer than API servers keep them.
"""

from __future__ import annotations

import logging
import resource
import select
import socket
import sys
import threading
import time
from http import HTTPStatus
from typing import Any, Final

from cheroot import wsgi
from cheroot.server import HTTPConnection, HTTPRequest

from webhook.http.body import BodyUnreadable
from webhook.http.client_certificates import CLIENT, client_name
from webhook.http.headers import MAX_FIRST_LINE, HeaderRejected, read_headers
from webhook.http.idle_connections import IdleConnections
from webhook.http.review_endpoint import BODY_READ
from webhook.http.stream import ChunkedBody, ClientReader, ClientWriter

REQUEST_SECONDS: Final = 8.0
PRESSED_SECONDS: Final = 1.0
PRESSED_AT_ONCE: Final = 16
MAX_CONNECTIONS: Final = 4096
# Descriptors that are not for clients.
SPARE_DESCRIPTORS: Final = 64
LINGER_MILLISECONDS: Final = 250
# At most 16 KiB each, a record of TLS.
DRAIN_READS: Final = 1024
DRAIN_SECONDS: Final = 1.0

log = logging.getLogger("muster.webhook")


class WebhookHttpRequest(HTTPRequest):
    """A request with bounded headers; tells its connection whether part of the body is left unread."""

    header_reader = staticmethod(read_headers)

    def read_request_line(self) -> bool:
        self.conn.rfile.begin_request()
        whole, self.rfile.maxlen = self.rfile.maxlen, MAX_FIRST_LINE
        try:
            good = bool(super().read_request_line())  # type: ignore[no-untyped-call]
        except BodyUnreadable as error:
            return self._refuse(error)
        except ValueError:
            # Raised by urllib for an invalid URL.
            return self._refuse(HeaderRejected(400, "Malformed Request-URI"))
        self.rfile.maxlen = whole
        return good

    def read_request_headers(self) -> bool:
        try:
            good = bool(super().read_request_headers())  # type: ignore[no-untyped-call]
        except (HeaderRejected, BodyUnreadable) as error:
            return self._refuse(error)
        coding = self.inheaders.get(b"Transfer-Encoding") if good else None
        if coding is not None and not (self.chunked_read and coding.lower() == b"chunked"):
            return self._refuse(HeaderRejected(400, "Transfer-Encoding must be chunked, and of HTTP/1.1"))
        return good

    def _refuse(self, error: HeaderRejected | BodyUnreadable) -> bool:
        status = HTTPStatus(error.status if isinstance(error, HeaderRejected) else 400)
        self.simple_response(f"{status.value} {status.phrase}", str(error))
        return False

    def send_headers(self) -> None:
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
        super().respond()
        self.conn.wfile.flush()

    def simple_response(self, status: str, msg: str = "") -> None:
        self.conn.unread = True
        super().simple_response(status, msg)
        self.conn.wfile.flush()


class WebhookConnection(HTTPConnection):
    """A connection with a handshake on the worker, and a drain after a refused request.

    `waiting_since`: since when, on the monotonic clock, a worker waits for this client to send or to read;
    None while it does not.
    """

    RequestHandlerClass = WebhookHttpRequest
    shaken = False
    client: str | None = None
    unread = False
    asked = False
    idle_until = 0.0
    waiting_since: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rfile, self.wfile = ClientReader(self.socket), ClientWriter(self.socket)
        self._readable = select.poll()
        self._readable.register(self.socket, select.POLLIN)

    def communicate(self) -> bool:
        self.wait_for_client()
        self.server.active.add(self)
        try:
            return self._serve() if self.shaken else self._shake()
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
        return True if not self.socket.pending() else self._serve()

    def _serve(self) -> bool:
        """Answer one request, and further ones that follow soon while workers are free."""
        if self.client is None:
            self.server.limit_unverified(self)
        while True:
            try:
                keep = bool(super().communicate())  # type: ignore[no-untyped-call]
            except OSError:
                # The reason is logged already.
                keep = False
            if not keep:
                if self.unread:
                    self._drain()
                return False
            if not self._more():
                return True
            self.wait_for_client()

    def _more(self) -> bool:
        """Whether another request arrives within LINGER_MILLISECONDS while enough workers are free."""
        self.waiting_since = None
        if self.rfile.has_data() or self.socket.pending():
            return True
        server = self.server
        if not server.ready or len(server.active) > server.lingering or server.requests.qsize:
            return False
        return bool(self._readable.poll(LINGER_MILLISECONDS))

    def give_up(self) -> None:
        """Shut the socket down, which wakes the thread that waits for this client."""
        try:
            # Below TLS, whose state belongs to that thread.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            return

    def _drain(self) -> None:
        """Read on for a moment; otherwise the client gets a reset before it reads the response."""
        until = time.monotonic() + DRAIN_SECONDS
        try:
            self.wfile.flush()
            self.socket.settimeout(0.1)
            for _ in range(DRAIN_READS):
                if time.monotonic() > until or not self.socket.recv(1 << 16):
                    return
        except (OSError, ValueError):
            return


class Gateway(wsgi.Gateway_10):
    """The WSGI gateway: bounds chunked bodies, and passes BODY_READ and CLIENT to the application."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        if self.req.chunked_read:
            environ["wsgi.input"] = self.req.rfile = ChunkedBody(self.req.conn.rfile)
        environ[BODY_READ] = self.req.conn.body_read
        environ[CLIENT] = self.req.conn.client
        return environ


class HttpServer(wsgi.Server):
    """cheroot with these connections; `active` are the connections that have a worker."""

    ConnectionClass = WebhookConnection
    asks_for_certificates = False
    _connections: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gateway = Gateway
        self.active: set[WebhookConnection] = set()
        # Workers that may wait for the next request of their client; the others are for new connections.
        self.lingering = self.requests.min // 2
        self.limit = limit_of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def limit_unverified(self, newcomer: WebhookConnection) -> None:
        """Where client certificates are requested, clients without one get half of the workers.

        Beyond that the one that has kept its worker waiting longest is closed, not the new one, which may be
        a probe of the kubelet.
        """
        if not self.asks_for_certificates:
            return
        unverified = [conn for conn in list(self.active) if conn.shaken and conn.client is None]
        if len(unverified) <= self.lingering:
            return
        waiting = [
            (since, conn)
            for conn in unverified
            if conn is not newcomer and (since := conn.waiting_since) is not None
        ]
        if waiting:
            min(waiting, key=lambda entry: entry[0])[1].give_up()

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
        self._connections._selector.close()
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
        log.log(min(level, logging.WARNING), "client: %s", " ".join(str(msg).split()), exc_info=traceback)


def limit_of(descriptors: int) -> int:
    """The maximum number of connections in a process that may open `descriptors` files."""
    return min(MAX_CONNECTIONS, descriptors - min(SPARE_DESCRIPTORS, descriptors // 2))


def cut_off_until(server: HttpServer, stopped: threading.Event, interval: float = 0.25) -> None:
    """Cut off slow clients every `interval` seconds until stopped; runs on a thread of its own."""
    while not stopped.wait(interval):
        server.cut_off(time.monotonic())
