"""HTTP/1.1 keep-alive connections, the pool of idle ones, and the registry of all connections to a server."""

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
from weakref import WeakSet

from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.response import Response
from scheduler_core.kube.http.transport import Transport

# Limits for detecting a lost peer within 9 s: by probes on an idle connection, otherwise by missing
# acknowledgements.
KEEPALIVE_IDLE = 5
KEEPALIVE_INTERVAL = 2
KEEPALIVE_COUNT = 2
UNACKNOWLEDGED_MILLISECONDS = 9000
MAX_IDLE = 32
# API servers close idle connections after 90 to 120 s; the client closes them first, so that few are stale.
MAX_IDLE_SECONDS = 60.0


class ProxyRefused(OSError):
    """The proxy answered CONNECT with another status than 200."""


class Use(Enum):
    """The current use of a connection: a request, none, a watch, or writes."""

    EXCHANGE = auto()
    IDLE = auto()
    STREAM = auto()
    WRITES = auto()


class Connection:
    """One socket to the API server; not thread-safe, one request at a time.

    `declared_dead` is True where the connection was aborted because it received nothing.
    """

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext | None, connect_timeout: float) -> None:
        self._endpoint = endpoint
        self._context = context
        self._connect_timeout = connect_timeout
        self._transport: Transport | None = None
        self.idle_since = 0.0
        # See ConnectionPool.
        self.generation = 0
        self.use = Use.EXCHANGE
        self.declared_dead = False

    @property
    def opened(self) -> bool:
        return self._transport is not None

    def open(self) -> None:
        """Connect (through the proxy, if there is one) and complete the TLS handshake. Raises OSError."""
        endpoint = self._endpoint
        proxy = urlsplit(endpoint.proxy) if endpoint.proxy else None
        address = (proxy.hostname or "", proxy.port or 80) if proxy else (endpoint.host, endpoint.port)
        raw = socket.create_connection(address, timeout=self._connect_timeout)
        try:
            _tune(raw)
            if proxy:
                _tunnel(raw, endpoint, _proxy_authorization(proxy.username, proxy.password))
            transport = Transport(raw)
            if self._context is not None:
                transport.start_tls(self._context, endpoint.tls_server_name or endpoint.host)
        except BaseException:
            raw.close()
            raise
        self._transport = transport

    @property
    def transport(self) -> Transport:
        """The transport of the open connection."""
        assert self._transport is not None
        return self._transport

    def send(self, request: bytes) -> None:
        """Send a whole request. Raises OSError, after which the server has not received all of it."""
        self.transport.write(request)

    def receive(self, method: str, read_timeout: float) -> Response:
        """Read the head of the response. Raises OSError or HTTPException."""
        self.transport.wait(read_timeout)
        response = Response(self.transport, method=method)  # type: ignore[arg-type]
        try:
            response.begin()
        except BaseException:
            response.close()
            raise
        return response

    def stale(self) -> bool:
        """True if the server has closed the idle connection, or sent unexpected bytes."""
        return self.readable()

    def readable(self) -> bool:
        """True if a read would not block: there are bytes, or the connection has ended."""
        return self._transport is None or self._transport.has_buffered_data() or self._transport.is_readable()

    @property
    def last_read(self) -> float:
        """When the last byte came, on the monotonic clock."""
        transport = self._transport
        return transport.last_read if transport is not None else 0.0

    def abort(self) -> None:
        """End a blocked read of another thread. Thread-safe."""
        transport = self._transport
        if transport is not None:
            transport.abort()

    def declare_dead(self) -> None:
        """Abort the connection because it received nothing. Thread-safe."""
        self.declared_dead = True
        self.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None


class ConnectionPool:
    """Idle connections, the newest first, for any number of threads.

    `generation` counts the calls of `clear`. The pool keeps connections of the current generation only.
    """

    def __init__(
        self, make: Callable[[], Connection], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        self.generation = 0

    def take(self, most_idle: float = MAX_IDLE_SECONDS) -> Connection:
        """A connection that was idle for at most so many seconds and looks alive, or a new unopened one."""
        while (connection := self._newest()) is not None:
            idle_seconds = self._monotonic() - connection.idle_since
            if idle_seconds <= min(most_idle, MAX_IDLE_SECONDS) and not connection.stale():
                connection.use = Use.EXCHANGE
                return connection
            # A new connection replaces it; the others have been idle for longer.
            connection.close()
            if idle_seconds > most_idle:
                break
        return self._make()

    def _newest(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose response was read completely."""
        connection.idle_since = self._monotonic()
        connection.use = Use.IDLE
        with self._lock:
            current = not self._closed and connection.generation == self.generation
            if current and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close every connection: idle ones now, those in use when they are given back."""
        with self._lock:
            self.generation += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Clear the pool, and keep no connection from now on."""
        self._closed = True
        self.clear()


def _tune(raw: socket.socket) -> None:
    """Disable Nagle's algorithm, and enable the detection of a lost peer."""
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
    target = endpoint.authority
    raw.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n".encode())
    # Without user and password, because messages end up in logs.
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


class ConnectionRegistry:
    """The connections of one or more sessions; closes others where one was found silent. Thread-safe.

    A load balancer or firewall that loses a connection usually loses its neighbours as well, and most of them
    cannot tell: a watch may be quiet for good reasons, and HTTP/1.1 has no ping.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakSet[Connection] = WeakSet()

    def add(self, connection: Connection) -> None:
        """Register a connection; it is forgotten once nobody uses it."""
        with self._lock:
            self._known.add(connection)

    def close_silent(self, since: float, *uses: Use) -> int:
        """Abort connections of these uses that have received nothing since that time; returns their number.

        Idle connections and watches lose little by it. Requests in flight should be aborted only with proof.
        """
        with self._lock:
            known = list(self._known)
        silent = [one for one in known if one.opened and one.use in uses and one.last_read < since]
        for connection in silent:
            connection.declare_dead()
        return len(silent)
