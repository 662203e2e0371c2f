"""HTTP server of a process for health checks, metrics and guarded pages. Plain HTTP, GET only.

A client can use a few threads and a limited part of a processor, but no more: there is one request per
connection, a rate limit per address, and a limit of connections beyond which the oldest is closed.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from scheduler_core.errors import MusterError

log = logging.getLogger(__name__)

_CLIENT_SECONDS: Final = 10.0
MAX_CONNECTIONS: Final = 32
# Rate limit and burst per address. Probes of a kubelet and Prometheus make one or two requests a second.
PER_SECOND: Final = 100.0
BURST: Final = 200.0
_MOST_ADDRESSES: Final = 1024
# Pause when the process has too many open files.
_PAUSE_SECONDS: Final = 0.05
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

# A check: its name, and a function that returns the problem, empty if there is none.
Check = tuple[str, Callable[[], str]]
# A page: its content type and body.
Page = tuple[str, bytes]
# Authorizes a guarded page: path and Authorization header to status and text; 200 grants access.
Gate = Callable[[str, str], tuple[int, str]]


class PortTaken(MusterError):
    """The process cannot listen on the requested address."""

    def __init__(self, address: str, port: int, problem: str) -> None:
        self.address = address
        self.port = port
        self.problem = problem
        super().__init__(address, port, problem)

    def __str__(self) -> str:
        return f"cannot listen on {self.address}:{self.port}: {self.problem}"


def checked(checks: list[Check], verbose: bool) -> tuple[int, str]:
    """Status and text of a health page: `ok`, or every check with its result, as in Kubernetes."""
    problems = [(name, check()) for name, check in checks]
    failed = any(problem for _, problem in problems)
    if not failed and not verbose:
        return 200, "ok"
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in problems]
    lines.append("check failed" if failed else "check passed")
    return (500 if failed else 200), "\n".join(lines) + "\n"


class ConnectionLimiter:
    """Limits the connections in number, and their rate per address. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._served: dict[socket.socket, None] = {}
        # By address: the tokens left, and when they were counted.
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._served)

    def admit(self, sock: socket.socket, address: str) -> bool:
        """Whether the connection is served; closes the oldest one where there are too many."""
        now = self._monotonic()
        with self._lock:
            left, since = self._tokens.pop(address, (BURST, now))
            left = min(BURST, left + max(0.0, now - since) * PER_SECOND)
            self._tokens[address] = (max(0.0, left - 1), now)
            if len(self._tokens) > _MOST_ADDRESSES:
                self._tokens.popitem(last=False)
            if left < 1:
                return False
            if len(self._served) >= MAX_CONNECTIONS:
                oldest = next(iter(self._served))
                del self._served[oldest]
                with suppress(OSError):
                    # Wakes the thread of the connection, which closes it.
                    oldest.shutdown(socket.SHUT_RDWR)
            self._served[sock] = None
            return True

    def release(self, sock: socket.socket) -> None:
        """The connection has ended."""
        with self._lock:
            self._served.pop(sock, None)


class HealthServer:
    """Serves requests on threads. `checks` by path (`/healthz`, ...); `pages` by path are rendered per
    request.

    Pages in `guarded` are shown only where `gate` returns 200.
    """

    def __init__(
        self,
        address: str,
        port: int,
        checks: Mapping[str, list[Check]],
        pages: Mapping[str, Callable[[], Page]],
        guarded: frozenset[str] = frozenset(),
        gate: Gate = lambda path, authorization: (403, "access to this page is denied"),
        name: str = "muster-scheduler",
    ) -> None:
        self._checks = checks
        self._pages = pages
        self._guarded = guarded
        self._gate = gate
        handler = type("Handler", (_Handler,), {"owner": self, "server_version": name})
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._server = type("Server", (PageServer,), {"address_family": family})((address, port), handler)
        except OSError as error:
            raise PortTaken(address, port, (error.strerror or str(error)).lower()) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, name="http", daemon=True
        )

    @property
    def url(self) -> str:
        """The URL of the server."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def answer(self, target: str, authorization: str = "") -> tuple[int, str, bytes]:
        """Status, content type and body of the response to a request's path and query."""
        try:
            url = urlsplit(target)
        except ValueError as error:
            return 400, TEXT, f"the target of the request is not a URL: {error}\n".encode()
        checks = self._checks.get(url.path)
        if checks is not None:
            status, text = checked(checks, "verbose" in parse_qs(url.query, keep_blank_values=True))
            return status, TEXT, text.encode()
        page = self._pages.get(url.path)
        if page is None:
            known = " ".join(sorted((*self._checks, *self._pages)))
            return 404, TEXT, f"no such page; the pages are: {known}\n".encode()
        if url.path in self._guarded:
            status, reason = self._gate(url.path, authorization)
            if status != 200:
                return status, TEXT, f"{reason}\n".encode()
        try:
            kind, body = page()
        except MusterError as error:
            return 503, TEXT, f"{error}\n".encode()
        return 200, kind, body


class PageServer(ThreadingHTTPServer):
    """Serves pages on threads; each address has a bounded number of connections and requests."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self.limiter = ConnectionLimiter()
        super().__init__(address, handler)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            # The socket stays ready: without a pause this thread would loop until a descriptor is free.
            time.sleep(_PAUSE_SECONDS)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self.limiter.admit(request, str(client_address[0]))

    def shutdown_request(self, request: Any) -> None:
        self.limiter.release(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a client that went away at debug level, and any other error as a warning."""
        error = sys.exception()
        if isinstance(error, OSError):
            log.debug("http: %s: %r", client_address[0], error)
        else:
            log.warning("http: %s: %r", client_address[0], error, exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    owner: HealthServer
    timeout = _CLIENT_SECONDS
    protocol_version = "HTTP/1.1"
    # Head and body are two writes: the body must not wait until the client acknowledges the head.
    disable_nagle_algorithm = True
    sys_version = ""

    def do_GET(self) -> None:
        status, kind, body = self.owner.answer(self.path, self.headers.get("Authorization", ""))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        # The rate limit counts connections.
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        log.debug("http: " + format, *args)
