"""Connections of cheroot, so that no client can stop the others.

Some things are done differently from cheroot's defaults. The TLS handshake runs on a worker thread, not on
the thread that accepts: there, each silent client would stop all others for the whole timeout. A new
connection gets a worker only when it has something to say. A request that trickles in, and an answer that
nobody reads, are cut off: cheroot's timeout is for the next byte, not for the whole; and where clients keep
all workers waiting while others queue, those that have kept theirs longest are cut off first. Of too many
connections those that never asked give way. One that did may rest for longer than API servers keep it.
"""

from __future__ import annotations

import logging
import resource
import select
import socket
import threading
import time
from http import HTTPStatus
from typing import Any, Final

from cheroot import wsgi
from cheroot.connections import ConnectionManager
from cheroot.server import HTTPConnection, HTTPRequest

from webhook.body import BodyUnreadable
from webhook.chunks import Chunks
from webhook.clients import CLIENT, client_name
from webhook.heads import MAX_FIRST_LINE, HeadRefused, read_head
from webhook.reviews import BODY_READ
from webhook.stream import Reader, Writer

REQUEST_SECONDS: Final = 8.0
PRESSED_SECONDS: Final = 1.0
PRESSED_AT_ONCE: Final = 16
# API servers give up an idle connection after 90 s; they shall be the ones to do it.
REST_SECONDS: Final = 120.0
MAX_CONNECTIONS: Final = 4096
# Descriptors for everything else than clients.
SPARE_DESCRIPTORS: Final = 64
LINGER_MILLISECONDS: Final = 250
# At most 16 KiB each, a record of TLS.
DRAIN_READS: Final = 1024
DRAIN_SECONDS: Final = 1.0

log = logging.getLogger("muster.webhook")


class Request(HTTPRequest):
    """Notes on its connection that the client may still be sending when the answer is out."""

    header_reader = staticmethod(read_head)

    def read_request_line(self) -> bool:
        self.conn.rfile.begin_request()
        whole, self.rfile.maxlen = self.rfile.maxlen, MAX_FIRST_LINE
        try:
            good = bool(super().read_request_line())  # type: ignore[no-untyped-call]
        except BodyUnreadable as error:
            return self._refuse(error)
        except ValueError:
            # urllib's, for what is no URL.
            return self._refuse(HeadRefused(400, "Malformed Request-URI"))
        self.rfile.maxlen = whole
        return good

    def read_request_headers(self) -> bool:
        try:
            good = bool(super().read_request_headers())  # type: ignore[no-untyped-call]
        except (HeadRefused, BodyUnreadable) as error:
            return self._refuse(error)
        coding = self.inheaders.get(b"Transfer-Encoding") if good else None
        if coding is not None and not (self.chunked_read and coding.lower() == b"chunked"):
            return self._refuse(HeadRefused(400, "Transfer-Encoding must be chunked, and of HTTP/1.1"))
        return good

    def _refuse(self, error: HeadRefused | BodyUnreadable) -> bool:
        status = HTTPStatus(error.status if isinstance(error, HeadRefused) else 400)
        self.simple_response(f"{status.value} {status.phrase}", str(error))
        return False

    def send_headers(self) -> None:
        refused = int(self.status[:3]) >= 400
        left = bool(getattr(self.rfile, "remaining", 0))
        # What is left of the body would be taken for the next request, and is not worth reading.
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


class Connection(HTTPConnection):
    """Shakes hands before the first request, and lets a client finish sending what was refused.

    `waiting_since`: since when, on the monotonic clock, a worker waits for this client to send or to read;
    None while it does not.
    """

    RequestHandlerClass = Request
    shaken = False
    client: str | None = None
    unread = False
    asked = False
    rests_until = 0.0
    waiting_since: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rfile, self.wfile = Reader(self.socket), Writer(self.socket)
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
        """The client's time runs from now on."""
        self.waiting_since = time.monotonic()

    def body_read(self) -> None:
        """The client has done its part."""
        self.waiting_since = None

    def _shake(self) -> bool:
        """The handshake; then back to the selector, until there is a request to read."""
        try:
            self.socket.do_handshake()
        except OSError:
            # A scanner, a probe, or a client that does not trust us: nothing to answer.
            return False
        self.shaken = True
        self.client = client_name(self.socket)
        return True if not self.socket.pending() else self._serve()

    def _serve(self) -> bool:
        """One request, and those that follow it soon: while workers abound, one stays with its client."""
        if self.client is None:
            self.server.bound_strangers(self)
        while True:
            keep = bool(super().communicate())  # type: ignore[no-untyped-call]
            if not keep:
                if self.unread:
                    self._drain()
                return False
            if not self._more():
                return True
            self.wait_for_client()

    def _more(self) -> bool:
        """Whether another request comes within a moment, and there are workers enough to wait for it."""
        self.waiting_since = None
        if self.rfile.has_data() or self.socket.pending():
            return True
        server = self.server
        if not server.ready or len(server.active) > server.lingering or server.requests.qsize:
            return False
        return bool(self._readable.poll(LINGER_MILLISECONDS))

    def give_up(self) -> None:
        """Wake the thread that waits for this client; it will find the connection closed."""
        try:
            # Past the TLS layer, whose state belongs to that thread.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            return

    def _drain(self) -> None:
        """Read on for a moment, or the client finds its connection reset before it sees the answer."""
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
    """Tells the application how to say that it has the whole body."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        if self.req.chunked_read:
            environ["wsgi.input"] = self.req.rfile = Chunks(self.req.conn.rfile)
        environ[BODY_READ] = self.req.conn.body_read
        environ[CLIENT] = self.req.conn.client
        return environ


class Resting(ConnectionManager):
    """Connections without a worker. They end by the monotonic clock: steps of the other end none."""

    _selector: Any

    def put(self, conn: Any) -> None:
        conn.rests_until = time.monotonic() + (REST_SECONDS if conn.asked else self.server.timeout)
        super().put(conn)

    def _expire(self, threshold: float) -> None:
        now = time.monotonic()
        resting = [found for found in self._selector.connections if found[1] is not self.server]
        for descriptor, conn in resting:
            if conn.rests_until < now:
                self._selector.unregister(descriptor)
                conn.close()


class HttpServer(wsgi.Server):
    """cheroot with these connections; `active` are those that a worker has."""

    ConnectionClass = Connection
    asks_for_certificates = False
    _connections: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gateway = Gateway
        self.active: set[Connection] = set()
        # As many workers may wait for the next request of their client; the others are for newcomers.
        self.lingering = self.requests.min // 2
        self.limit = min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_DESCRIPTORS)

    def bound_strangers(self, newcomer: Connection) -> None:
        """Where API servers show who they are, others get half of the workers: one more, and another goes.

        The one that has kept its worker waiting longest, not the newcomer: it may be a probe of the kubelet.
        """
        if not self.asks_for_certificates:
            return
        strangers = [conn for conn in list(self.active) if conn.shaken and conn.client is None]
        if len(strangers) <= self.lingering:
            return
        waiting = [
            (since, conn)
            for conn in strangers
            if conn is not newcomer and (since := conn.waiting_since) is not None
        ]
        if waiting:
            min(waiting, key=lambda entry: entry[0])[1].give_up()

    def process_conn(self, conn: Any) -> None:
        """A connection that has not been heard of waits in the selector, which costs no thread."""
        if conn.last_used is None:
            self._make_room()
            self._connections.put(conn)
        else:
            super().process_conn(conn)

    def prepare(self) -> None:
        """Bind and listen. Raises OSError."""
        super().prepare()
        self._connections._selector.close()
        self._connections = Resting(self)

    def _make_room(self) -> None:
        """Beyond the limit, of connections that never asked the oldest goes. On the selector's thread."""
        selector = self._connections._selector
        if len(selector) + len(self.active) + self.requests.qsize <= self.limit:
            return
        silent = [found for found in selector.connections if found[1] is not self and not found[1].asked]
        if silent:
            descriptor, oldest = min(silent, key=lambda found: found[1].last_used)
            selector.unregister(descriptor)
            oldest.close()

    def cut_off(self, now: float) -> None:
        """End what clients keep waiting for too long; a thread each is all they can hold."""
        waiting = [(since, conn) for conn in list(self.active) if (since := conn.waiting_since) is not None]
        waiting.sort(key=lambda entry: entry[0])
        wanted = max(self.requests.qsize, PRESSED_AT_ONCE) if self.requests.qsize else 0
        for position, (since, conn) in enumerate(waiting):
            limit = PRESSED_SECONDS if position < wanted else REQUEST_SECONDS
            if since < now - limit:
                conn.give_up()

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: Any) -> socket.socket:
        """Closes the socket where the address is taken, which cheroot forgets."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        log.log(min(level, logging.WARNING), "%s", " ".join(str(msg).split()), exc_info=traceback)


def cut_off_until(server: HttpServer, stopped: threading.Event, interval: float = 0.25) -> None:
    """The body of the thread that looks after slow clients."""
    while not stopped.wait(interval):
        server.cut_off(time.monotonic())
