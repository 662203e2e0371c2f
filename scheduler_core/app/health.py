"""The process's HTTP port: health, metrics, configuration and the debugger. Plain HTTP, GET only."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from scheduler_core.errors import MusterError

log = logging.getLogger(__name__)

_CLIENT_SECONDS: Final = 10.0
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

# A check: its name, and a function that returns what is wrong, empty for nothing.
Check = tuple[str, Callable[[], str]]
# A page: its content type and body.
Page = tuple[str, bytes]


class PortTaken(MusterError):
    """The address that was asked for cannot be listened on."""

    def __init__(self, address: str, port: int, problem: str) -> None:
        self.address = address
        self.port = port
        self.problem = problem
        super().__init__(address, port, problem)

    def __str__(self) -> str:
        return f"cannot listen on {self.address}:{self.port}: {self.problem}"


def checked(checks: list[Check], verbose: bool) -> tuple[int, str]:
    """Status and text of a health page: `ok`, or every check with its verdict, as Kubernetes shows them."""
    problems = [(name, check()) for name, check in checks]
    failed = any(problem for _, problem in problems)
    if not failed and not verbose:
        return 200, "ok"
    lines = [f"[-]{name} failed: {said}" if said else f"[+]{name} ok" for name, said in problems]
    lines.append("check failed" if failed else "check passed")
    return (500 if failed else 200), "\n".join(lines) + "\n"


class HealthServer:
    """Serves on a thread. `checks` by path (`/healthz`, ...); `pages` by path are made anew per request."""

    def __init__(
        self,
        address: str,
        port: int,
        checks: Mapping[str, list[Check]],
        pages: Mapping[str, Callable[[], Page]],
    ) -> None:
        self._checks = checks
        self._pages = pages
        handler = type("Handler", (_Handler,), {"owner": self})
        try:
            self._server = ThreadingHTTPServer((address, port), handler)
        except OSError as error:
            raise PortTaken(address, port, (error.strerror or str(error)).lower()) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, name="http", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def answer(self, target: str) -> tuple[int, str, bytes]:
        """Status, content type and body for a request's path and query."""
        url = urlsplit(target)
        checks = self._checks.get(url.path)
        if checks is not None:
            status, text = checked(checks, "verbose" in parse_qs(url.query, keep_blank_values=True))
            return status, TEXT, text.encode()
        page = self._pages.get(url.path)
        if page is None:
            known = " ".join(sorted((*self._checks, *self._pages)))
            return 404, TEXT, f"no such page; there are: {known}\n".encode()
        try:
            kind, body = page()
        except MusterError as error:
            return 503, TEXT, f"{error}\n".encode()
        return 200, kind, body


class _Handler(BaseHTTPRequestHandler):
    owner: HealthServer
    timeout = _CLIENT_SECONDS
    protocol_version = "HTTP/1.1"
    server_version = "muster-scheduler"
    sys_version = ""

    def do_GET(self) -> None:
        status, kind, body = self.owner.answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        log.debug("http: " + format, *args)
