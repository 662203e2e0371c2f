"""Clients of a webhook: some that ask, some that only hold connections open."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable

Connect = Callable[[], http.client.HTTPSConnection]
RETRIES = (0.0, 0.1)
LITTLE = 4096
HEAD = b"POST /validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Asker(threading.Thread):
    """Asks the same again and again over one connection, at most every `pause` seconds.

    As a client of a Service, it tries again on a new connection where the old one is gone. `failures` are
    what it got no answer 200 for in the end; `slowest` is in seconds.
    """

    def __init__(self, connect: Connect, body: bytes, path: str = "/validate", pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._body = body
        self._path = path
        self._pause = pause
        self._link: http.client.HTTPSConnection | None = None
        self._stopping = threading.Event()
        self.answered = 0
        self.repeated = 0
        self.slowest = 0.0
        self.failures: list[str] = []

    def run(self) -> None:
        while not self._stopping.wait(self._pause):
            began = time.monotonic()
            failure = self._try()
            # A process that dies takes connections for a moment longer.
            for pause in RETRIES:
                if failure is None or self._stopping.wait(pause):
                    break
                self.repeated += 1
                failure = self._try()
            if failure is None:
                self.answered += 1
            elif not self._stopping.is_set():
                self.failures.append(repr(failure))
            self.slowest = max(self.slowest, time.monotonic() - began)
        self._close()

    def _try(self) -> Exception | None:
        try:
            self._ask()
        except (OSError, http.client.HTTPException, AssertionError) as error:
            self._close()
            return error
        return None

    def _ask(self) -> None:
        if self._link is None:
            self._link = self._connect()
        self._link.request("POST", self._path, self._body, {"Content-Type": "application/json"})
        answer = self._link.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        if answer.getheader("Connection") == "close":
            self._close()

    def _close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._stopping.set()
        self.join(60)


def silent(port: int, context: ssl.SSLContext) -> socket.socket:
    """Connects and says nothing, not even a handshake."""
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def half_handshake(port: int, context: ssl.SSLContext) -> socket.socket:
    """Begins a handshake and leaves it at that."""
    sock = silent(port, context)
    sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
    return sock


def shaken(port: int, context: ssl.SSLContext) -> socket.socket:
    """Shakes hands and says nothing more."""
    return context.wrap_socket(silent(port, context), server_hostname="localhost")


def half_header(port: int, context: ssl.SSLContext) -> socket.socket:
    """Stops in the middle of a header."""
    sock = shaken(port, context)
    sock.sendall(HEAD[:40])
    return sock


def half_body(port: int, context: ssl.SSLContext) -> socket.socket:
    """Stops in the middle of a body."""
    sock = shaken(port, context)
    sock.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
    return sock


def never_reading(port: int, context: ssl.SSLContext) -> socket.socket:
    """Asks for more than fits into the buffers of both (`answering_little`), and reads nothing of it."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LITTLE)
    plain.settimeout(30)
    plain.connect(("127.0.0.1", port))
    sock = context.wrap_socket(plain, server_hostname="localhost")
    sock.sendall((HEAD + b"Content-Length: 2\r\n\r\n{}") * 100)
    return sock


def answering_little(listening: socket.socket) -> None:
    """Give a server small buffers for its answers: a system would take megabytes that nobody reads."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LITTLE)


SLOW: tuple[Callable[[int, ssl.SSLContext], socket.socket], ...] = (
    silent,
    half_handshake,
    shaken,
    half_header,
    half_body,
    never_reading,
)
