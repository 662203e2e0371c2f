"""HTTP servers on loopback that stand in for others: no answer waits in the kernel, no request is logged."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
# The end of a test waits for it once.
POLL_SECONDS = 0.02


class StandInHandler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    # Head and body are two writes: with Nagle's algorithm the body waits until the head is acknowledged,
    # often for 40 ms.
    disable_nagle_algorithm = True

    def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """The test's output is not theirs."""


class StandInServer(ThreadingHTTPServer):
    """Any free port, and a thread for each connection."""

    daemon_threads = True
    # All watches begin at once; who finds no place here tries again after a second, or three.
    request_queue_size = 64

    def __init__(self, handler: type[StandInHandler], port: int = 0) -> None:
        super().__init__((HOST, port), handler)

    @property
    def port(self) -> int:
        found: int = self.server_address[1]
        return found

    def start(self) -> None:
        """Answer, on a thread of its own."""
        threading.Thread(target=self.serve_forever, args=(POLL_SECONDS,), daemon=True).start()


@contextmanager
def standing_in(handler: type[StandInHandler]) -> Iterator[str]:
    """The URL of a server of this handler."""
    with StandInServer(handler) as server:
        server.start()
        try:
            yield f"http://{HOST}:{server.port}"
        finally:
            server.shutdown()
