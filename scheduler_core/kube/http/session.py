"""HTTP exchanges with the API server: authentication, timeouts, stale connections, watch streams."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import Final, Protocol

from scheduler_core.kube.errors import AnswerTooLarge, Unreachable
from scheduler_core.kube.http.connection import (
    MAX_IDLE_SECONDS,
    Connection,
    ConnectionPool,
    ConnectionRegistry,
    ProxyRefused,
    Use,
)
from scheduler_core.kube.http.endpoint import HTTP_1, ClientCertificate, Endpoint, tls_context
from scheduler_core.kube.http.response import ANY_SIZE, Response, ResponseBodyTooLarge, gunzip
from scheduler_core.kube.http.response_parser import ApiResponse, retry_after_seconds
from scheduler_core.kube.http.stream import StreamWatcher
from scheduler_core.kube.requests import JSON
from scheduler_core.kube.served import ServedVersions

# A connection that received data in the last seconds counts as alive.
_MOMENT: Final = 1.0


class Credentials(Protocol):
    """Credentials of the client. Implementations are thread-safe."""

    def headers(self) -> list[tuple[str, str]]:
        """Headers for one request; renews credentials that are about to expire. Raises KubeconfigError."""

    def certificate(self) -> ClientCertificate | None:
        """The current TLS client certificate, if there is one; requested for every new connection."""

    def refresh(self) -> bool:
        """Fetch new credentials, after a 401. False if there is nothing to renew."""


@dataclass(frozen=True)
class Limits:
    """Timeouts in seconds: of connecting (TCP and TLS), and of reading.

    `silence` replaces `read` on a connection that may be dead, where the request can be repeated or its
    outcome can be read.
    """

    connect: float = 5.0
    read: float = 30.0
    silence: float = 5.0


class Session:
    """Requests to one API server from any number of threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials,
        *,
        user_agent: str = "muster",
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        connections: ConnectionRegistry | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._credentials = credentials
        self._user_agent = user_agent
        self.limits = limits or Limits()
        self.served = ServedVersions()
        self._lock = threading.Lock()
        # By protocols; all contexts use this certificate.
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._certificate: ClientCertificate | None = None
        self.connections = connections or ConnectionRegistry()
        self._pool = ConnectionPool(self.new_connection, monotonic)
        # Since when a connection has received nothing; None after another connection received
        # something.
        self._silent_since: float | None = None
        self._head = f"Host: {endpoint.authority}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n"
        self._base = endpoint.base_path
        # The last credentials, and the part of a request head that contains them.
        self._head_cache: tuple[list[tuple[str, str]], str] = ([], self._head)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        most: int = ANY_SIZE,
    ) -> ApiResponse:
        """One exchange, whatever the status. Raises Unreachable, KubeconfigError.

        Raises AnswerTooLarge where the response has more than `most` bytes.
        """
        answer = self._exchange(method, path, body, content_type, most)
        if answer.status == 401 and self._renew():
            answer = self._exchange(method, path, body, content_type, most)
        return answer

    def stream(self, path: str, silence: float) -> StreamWatcher | ApiResponse:
        """A GET whose body is read line by line, or the response where the server refused it.

        `silence` is the longest wait for the next byte, in seconds. Raises Unreachable, KubeconfigError.
        """
        opened = self._open_stream(path, silence)
        if isinstance(opened, ApiResponse) and opened.status == 401 and self._renew():
            opened = self._open_stream(path, silence)
        return opened

    def with_limits(self, limits: Limits) -> Session:
        """A session with its own connections and other timeouts, for the same server and user."""
        return Session(
            self.endpoint,
            self._credentials,
            user_agent=self._user_agent,
            limits=limits,
            connections=self.connections,
        )

    def report_silence(self, since: float) -> None:
        """A connection has received nothing since that time: it is dead, or the server is slow."""
        self._silent_since = since
        self.connections.close_silent(since, Use.IDLE)

    def open(self, connection: Connection) -> None:
        """Open a new connection. Raises OSError; TimeoutError if the server does not answer."""
        began = time.monotonic()
        try:
            connection.open()
        except TimeoutError:
            self.report_silence(began)
            raise

    def refuses_connections(self) -> bool:
        """True while nothing listens at the server's address. Costs one TCP handshake and no request."""
        try:
            socket.create_connection((self.endpoint.host, self.endpoint.port), self.limits.connect).close()
        except OSError:
            return True
        return False

    def close(self) -> None:
        """Close idle connections; those in use, and later ones, close after their exchange."""
        self._pool.close()

    def _open_stream(self, path: str, silence: float) -> StreamWatcher | ApiResponse:
        connection, response = self._open_exchange("GET", path, b"", "", silence)
        if response.status == 200:
            connection.use = Use.STREAM
            return StreamWatcher(connection, response)
        return self._complete("GET", path, connection, response)

    def _exchange(self, method: str, path: str, body: bytes, content_type: str, most: int) -> ApiResponse:
        connection, response = self._open_exchange(method, path, body, content_type, self.limits.read)
        return self._complete(method, path, connection, response, most)

    def _complete(
        self, method: str, path: str, connection: Connection, response: Response, most: int = ANY_SIZE
    ) -> ApiResponse:
        """Read the body and return the connection to the pool."""
        try:
            body = response.whole(most)
            if response.fields.get("content-encoding") == "gzip":
                body = gunzip(body, most)
        except ResponseBodyTooLarge:
            connection.close()
            raise AnswerTooLarge(most, method=method, path=path) from None
        except (OSError, HTTPException, zlib.error) as error:
            connection.close()
            raise self.unreachable(error, method, path, sent=True) from None
        retry_after = retry_after_seconds(response.fields.get("retry-after", ""))
        answer = ApiResponse(response.status, retry_after, body)
        if response.will_close:
            connection.close()
        else:
            self._pool.give_back(connection)
        return answer

    def _open_exchange(
        self, method: str, path: str, body: bytes, content_type: str, read_timeout: float
    ) -> tuple[Connection, Response]:
        """Send on a pooled connection; again on a new one if the pooled one is dead.

        A read may be repeated after it was sent, a write only if the server cannot have received it
        completely. So a dead pooled connection costs a read `Limits.silence` seconds, while a write uses a
        connection that received data a moment ago, or a new one.
        """
        request = self.encode(method, path, body, content_type)
        safe = method == "GET"
        patient = read_timeout > self.limits.silence
        connection = self._pool.take(_MOMENT if patient and not safe else MAX_IDLE_SECONDS)
        if not connection.opened:
            return connection, self._first_attempt(connection, request, method, path, read_timeout)
        began = time.monotonic()
        timeout = min(read_timeout, self.limits.silence) if safe else read_timeout
        try:
            response = self._attempt(connection, request, method, path, timeout)
        except Unreachable as error:
            silent = isinstance(error.__cause__, TimeoutError)
            if silent:
                self.report_silence(began)
            if (error.sent and not safe) or (silent and not patient):
                raise
        else:
            connection.transport.wait(read_timeout)
            return connection, response
        connection = self.new_connection()
        return connection, self._first_attempt(connection, request, method, path, read_timeout)

    def _first_attempt(
        self, connection: Connection, request: bytes, method: str, path: str, read_timeout: float
    ) -> Response:
        """An exchange on a new connection. Its response shows that the server works, and that the other
        connection was dead.
        """
        response = self._attempt(connection, request, method, path, read_timeout)
        since, self._silent_since = self._silent_since, None
        if since is not None:
            self.connections.close_silent(since, Use.IDLE, Use.STREAM)
        return response

    def _attempt(
        self, connection: Connection, request: bytes, method: str, path: str, read_timeout: float
    ) -> Response:
        sent = False
        try:
            if not connection.opened:
                self.open(connection)
            connection.send(request)
            sent = True
            return connection.receive(method, read_timeout)
        except (OSError, HTTPException) as error:
            connection.close()
            raise self.unreachable(error, method, path, sent=sent) from error

    def encode(self, method: str, path: str, body: bytes, content_type: str) -> bytes:
        """The bytes of a request, with credentials. Raises KubeconfigError."""
        known, head = self._head_cache
        headers = self._credentials.headers()
        if headers != known:
            head = self._head + "".join([f"{name}: {value}\r\n" for name, value in headers])
            self._head_cache = headers, head
        about = ""
        if body or method not in ("GET", "DELETE"):
            about = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return f"{method} {self._base}{path} HTTP/1.1\r\n{head}{about}\r\n".encode("latin-1") + body

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Header fields that identify the client. Raises KubeconfigError."""
        return ("user-agent", self._user_agent), *self._credentials.headers()

    def new_connection(self, protocols: tuple[str, ...] = (HTTP_1,)) -> Connection:
        """A new connection, not open yet, that offers these protocols over TLS."""
        if self.endpoint.tls:
            self._follow_certificate()
        # Read before the certificate is: a connection counts as too old rather than as too new.
        generation = self._pool.generation
        context = self._tls(protocols)
        connection = Connection(self.endpoint, context, self.limits.connect)
        connection.generation = generation
        self.connections.add(connection)
        return connection

    def _tls(self, protocols: tuple[str, ...]) -> ssl.SSLContext | None:
        if not self.endpoint.tls:
            return None
        with self._lock:
            context = self._contexts.get(protocols)
            if context is None:
                context = self._contexts[protocols] = tls_context(self.endpoint, self._certificate, protocols)
            return context

    def _follow_certificate(self) -> bool:
        """Whether the client certificate changed; connections with the old one are closed."""
        certificate = self._credentials.certificate()
        with self._lock:
            if certificate == self._certificate:
                return False
            self._certificate = certificate
            self._contexts.clear()
        self._pool.clear()
        return True

    def _renew(self) -> bool:
        """Whether there are new credentials after a 401."""
        renewed = self._credentials.refresh()
        return self._follow_certificate() or renewed

    def unreachable(self, error: Exception, method: str, path: str, *, sent: bool) -> Unreachable:
        """The error of a failed exchange; `sent` is True if the server may have received the request."""
        problem = f"{self.endpoint.server}: {explain(error)}"
        refused = isinstance(error, ConnectionRefusedError) and not self.endpoint.proxy
        return Unreachable(problem, sent=sent, refused=refused, method=method, path=path)


def explain(error: Exception) -> str:
    """A failed connection in one line, for users."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ProxyRefused):
        return str(error)
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved: {error.strerror}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return f"the connection broke: {error}" if str(error) else f"the connection broke: {type(error).__name__}"
