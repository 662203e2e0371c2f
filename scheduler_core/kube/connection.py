"""Keep-alive HTTP/1.1 connections: one socket each, and the pool that lends them to threads."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from http.client import HTTPException
from urllib.parse import unquote, urlsplit

from scheduler_core.kube.endpoint import Endpoint
from scheduler_core.kube.response import Response
from scheduler_core.kube.wire import Wire

# A peer that the network has lost is noticed within 9 s: by probes where nothing is under way, else because
# what was sent is not acknowledged.
KEEPALIVE_IDLE = 5
KEEPALIVE_INTERVAL = 2
KEEPALIVE_COUNT = 2
UNACKNOWLEDGED_MILLISECONDS = 9000
MAX_IDLE = 32
# API servers close idle connections after 90 to 120 s; ours go first, so that few are found dead.
MAX_IDLE_SECONDS = 60.0


class ProxyRefused(OSError):
    """The proxy answered CONNECT with something other than success."""


class Use(Enum):
    """What a connection does at the moment: a request, nothing, a watch, writes of the writer's."""

    EXCHANGE = auto()
    IDLE = auto()
    STREAM = auto()
    LANE = auto()


class Connection:
    """One socket to the API server; not thread-safe, one request at a time.

    `given_up` says that it went silent, and was ended for that.
    """

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext | None, connect_timeout: float) -> None:
        self._endpoint = endpoint
        self._context = context
        self._connect_timeout = connect_timeout
        self._wire: Wire | None = None
        self.idle_since = 0.0
        self.use = Use.EXCHANGE
        self.given_up = False

    @property
    def opened(self) -> bool:
        return self._wire is not None

    def open(self) -> None:
        """Connect (through the proxy, if there is one) and shake hands. Raises OSError."""
        endpoint = self._endpoint
        proxy = urlsplit(endpoint.proxy) if endpoint.proxy else None
        address = (proxy.hostname or "", proxy.port or 80) if proxy else (endpoint.host, endpoint.port)
        raw = socket.create_connection(address, timeout=self._connect_timeout)
        try:
            _tune(raw)
            if proxy:
                _tunnel(raw, endpoint, _proxy_authorization(proxy.username, proxy.password))
            wire = Wire(raw)
            if self._context is not None:
                wire.secure(self._context, endpoint.tls_server_name or endpoint.host)
        except BaseException:
            raw.close()
            raise
        self._wire = wire

    @property
    def wire(self) -> Wire:
        """What the open connection reads from and writes to."""
        assert self._wire is not None
        return self._wire

    def send(self, request: bytes) -> None:
        """Send a whole request. Raises OSError, in which case the server has not got all of it."""
        self.wire.write(request)

    def receive(self, method: str, read_timeout: float) -> Response:
        """Read the head of the answer. Raises OSError or HTTPException."""
        self.wire.wait(read_timeout)
        response = Response(self.wire, method=method)  # type: ignore[arg-type]
        try:
            response.begin()
        except BaseException:
            response.close()
            raise
        return response

    def stale(self) -> bool:
        """True if the server has closed the idle connection, or said something nobody asked for."""
        return self.readable()

    def readable(self) -> bool:
        """True if a read would not wait: there are bytes, or the connection has ended."""
        return self._wire is None or self._wire.holds_more() or self._wire.polled()

    @property
    def heard(self) -> float:
        """When the last byte came, on the monotonic clock."""
        wire = self._wire
        return wire.heard if wire is not None else 0.0

    def abort(self) -> None:
        """Wake a thread that is reading from this connection: its read ends at once. Thread-safe."""
        wire = self._wire
        if wire is not None:
            wire.abort()

    def give_up(self) -> None:
        """As `abort`, because it went silent. Thread-safe."""
        self.given_up = True
        self.abort()

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


class Pool:
    """Idle connections, newest first, for any number of threads."""

    def __init__(
        self, make: Callable[[], Connection], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._idle: list[Connection] = []

    def take(self, most_idle: float = MAX_IDLE_SECONDS) -> Connection:
        """A connection idle for so many seconds at most that looks alive, or a new one, not open yet."""
        while (connection := self._newest()) is not None:
            rested = self._rested(connection)
            if rested <= min(most_idle, MAX_IDLE_SECONDS) and not connection.stale():
                connection.use = Use.EXCHANGE
                return connection
            # The new one takes its place; the others have rested for longer still.
            connection.close()
            if rested > most_idle:
                break
        return self._make()

    def _newest(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _rested(self, connection: Connection) -> float:
        return self._monotonic() - connection.idle_since

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose answer was read to its end."""
        connection.idle_since = self._monotonic()
        connection.use = Use.IDLE
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close every idle connection."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _tune(raw: socket.socket) -> None:
    """No Nagle delay, and a peer that the network has lost is noticed."""
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probes = {
        "TCP_KEEPIDLE": KEEPALIVE_IDLE,
        "TCP_KEEPINTVL": KEEPALIVE_INTERVAL,
        "TCP_KEEPCNT": KEEPALIVE_COUNT,
        "TCP_USER_TIMEOUT": UNACKNOWLEDGED_MILLISECONDS,
    }
    for name, value in probes.items():
        option = getattr(socket, name, None)
        if option is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)


def _proxy_authorization(username: str | None, password: str | None) -> str:
    if username is None:
        return ""
    pair = f"{unquote(username)}:{unquote(password or '')}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}\r\n"


def _tunnel(raw: socket.socket, endpoint: Endpoint, authorization: str) -> None:
    """Ask the proxy for a tunnel to the API server."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    target = f"{host}:{endpoint.port}"
    raw.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n".encode())
    # Without its user and password: messages end up in logs.
    name = f"proxy {urlsplit(endpoint.proxy).netloc.rpartition('@')[2]}"
    response = Response(raw, method="CONNECT")
    try:
        response.begin()
    except HTTPException as error:
        raise ProxyRefused(f"{name} does not speak HTTP: {error!r}") from None
    finally:
        response.close()
    if response.status != 200:
        raise ProxyRefused(f"{name} answered {response.status}")
