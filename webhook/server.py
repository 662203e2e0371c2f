"""cheroot, set up so that no client can stop the others.

Measured choices: real read timeouts, HTTP/1.1 only, hot reload of certificates without a signal. Some things
are done differently from cheroot's defaults. The TLS handshake runs on a worker thread, not on the thread
that accepts: there, each silent client would stop all others for the whole timeout. And a new connection
gets a worker only when it has something to say. And a request that trickles in is cut off: cheroot's
timeout is for the next byte, not for the whole.
"""

from __future__ import annotations

import logging
import socket
import ssl
import tempfile
import threading
import time
from typing import Any, Final

from cheroot import wsgi
from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.ssl.builtin import BuiltinSSLAdapter
from flask import Flask

from scheduler_core.errors import MusterError
from webhook.app import MAX_BODY
from webhook.certs import CertificateError, KeyPair

# cheroot never grows its pool by itself; what a thread costs while it waits is address space.
THREADS: Final = 128
BACKLOG: Final = 512
TIMEOUT: Final = 5
REQUEST_SECONDS: Final = 8.0
KEEP_ALIVE: Final = 512
MAX_HEADERS: Final = 16 << 10
DRAIN_BYTES: Final = 16 << 20
DRAIN_SECONDS: Final = 1.0

log = logging.getLogger("muster.webhook")


class ListenError(MusterError):
    """The address cannot be listened on: which, and why."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(address, problem)

    def __str__(self) -> str:
        return f"cannot listen on {self.address}: {self.problem}"


def tls_context(pair: KeyPair) -> ssl.SSLContext:
    """A server context: TLS 1.2 or newer, HTTP/1.1 only. Raises CertificateError for a bad pair.

    OpenSSL reads from a file: one that is its owner's alone, and gone before this returns.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        with tempfile.NamedTemporaryFile(prefix="muster-webhook-") as file:
            file.write(pair.key.rstrip() + b"\n" + pair.certificate)
            file.flush()
            context.load_cert_chain(file.name)
    except OSError as error:
        raise CertificateError("serving certificate", f"cannot be loaded: {error}") from None
    return context


class _TlsAdapter(BuiltinSSLAdapter):
    """Wraps at once, shakes hands later; the context can be exchanged at any time."""

    def __init__(self, context: ssl.SSLContext) -> None:
        # Not the parent's: it would read the pair from files, again and again.
        self.context = context

    def wrap(self, sock: Any) -> tuple[Any, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


class _Request(HTTPRequest):
    """Notes on its connection that the client may still be sending when the answer is out."""

    def send_headers(self) -> None:
        refused = int(self.status[:3]) >= 400
        # What is left of a chunked body would be taken for the next request.
        if (b"Connection", b"close") in self.outheaders or (refused and self.chunked_read):
            self.close_connection = True
        super().send_headers()
        self.conn.unread = refused and self.close_connection

    def simple_response(self, status: str, msg: str = "") -> None:
        self.conn.unread = True
        super().simple_response(status, msg)


class _Connection(HTTPConnection):
    """Shakes hands before the first request, and lets a client finish sending what was refused."""

    RequestHandlerClass = _Request
    shaken = False
    unread = False

    def communicate(self) -> bool:
        self.server.active[self] = time.monotonic()
        try:
            return self._serve() if self.shaken else self._shake()
        finally:
            del self.server.active[self]

    def _shake(self) -> bool:
        """The handshake; then back to the selector, until there is a request to read."""
        try:
            self.socket.do_handshake()
        except OSError:
            # A scanner, a probe, or a client that does not trust us: nothing to answer.
            return False
        self.shaken = True
        return True if not self.socket.pending() else self._serve()

    def _serve(self) -> bool:
        keep = bool(super().communicate())  # type: ignore[no-untyped-call]
        if self.unread and not keep:
            self._drain()
        return keep

    def give_up(self) -> None:
        """Wake the thread that reads from this connection; it will find it closed."""
        try:
            # Past the TLS layer, whose state belongs to the thread that reads.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            return

    def _drain(self) -> None:
        """Read on for a moment, or the client finds its connection reset before it sees the answer."""
        until, left = time.monotonic() + DRAIN_SECONDS, DRAIN_BYTES
        try:
            self.wfile.flush()
            self.socket.settimeout(0.1)
            while left > 0 and time.monotonic() < until:
                got = len(self.socket.recv(1 << 16))
                if not got:
                    return
                left -= got
        except (OSError, ValueError):
            return


class _HttpServer(wsgi.Server):
    ConnectionClass = _Connection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.active: dict[_Connection, float] = {}

    def process_conn(self, conn: Any) -> None:
        """A connection that has not been heard of waits in the selector, which costs no thread."""
        if conn.last_used is None:
            self._connections.put(conn)  # type: ignore[attr-defined]
        else:
            super().process_conn(conn)

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


class WebhookServer:
    """The application behind TLS on one address."""

    def __init__(self, app: Flask, address: tuple[str, int], pair: KeyPair) -> None:
        self._adapter = _TlsAdapter(tls_context(pair))
        server = _HttpServer(
            address,
            app,
            numthreads=THREADS,
            request_queue_size=BACKLOG,
            timeout=TIMEOUT,
            shutdown_timeout=TIMEOUT,
            server_name="muster-webhook",
        )
        server.ssl_adapter = self._adapter
        server.max_request_body_size = MAX_BODY
        server.max_request_header_size = MAX_HEADERS
        server.keep_alive_conn_limit = KEEP_ALIVE
        self._server = server
        self._stopped = threading.Event()
        self._threads = (
            threading.Thread(target=server.serve, name="webhook-accept", daemon=True),
            threading.Thread(target=self._cut_off, name="webhook-cut-off", daemon=True),
        )

    @property
    def port(self) -> int:
        """The port, chosen by the system where 0 was asked for."""
        return int(self._server.bind_addr[1])

    def start(self) -> None:
        """Listen, and serve on threads of our own. Raises ListenError."""
        host, port = self._server.bind_addr[:2]
        try:
            self._server.prepare()
        except OSError as error:
            problem = "the port is in use" if "Address already in use" in str(error) else str(error)
            raise ListenError(f"{host}:{port}", problem) from None
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish the requests in progress, within TIMEOUT, and close everything."""
        self._stopped.set()
        self._server.stop()
        for thread in self._threads:
            thread.join(TIMEOUT)

    def _cut_off(self) -> None:
        """End requests that have been under way for too long; a thread each is all they can hold."""
        while not self._stopped.wait(1.0):
            oldest = time.monotonic() - REQUEST_SECONDS
            for connection, began in list(self._server.active.items()):
                if began < oldest:
                    connection.give_up()

    def use(self, pair: KeyPair) -> None:
        """Serve new connections with this pair. Raises CertificateError; a bad pair changes nothing."""
        self._adapter.context = tls_context(pair)
