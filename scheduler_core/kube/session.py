"""HTTP exchanges with the API server: authentication, time limits, stale connections, streams."""

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

from scheduler_core.kube.answers import Answer
from scheduler_core.kube.connection import MAX_IDLE_SECONDS, Connection, Pool, ProxyRefused, Use
from scheduler_core.kube.contacts import Contacts
from scheduler_core.kube.endpoint import HTTP_1, ClientCertificate, Endpoint, tls_context
from scheduler_core.kube.errors import AnswerTooLarge, Unreachable
from scheduler_core.kube.requests import JSON
from scheduler_core.kube.response import ANY_SIZE, OverlongBody, Response, unzipped
from scheduler_core.kube.stream import Stream

# A connection that said something so many seconds ago is taken to be alive.
_MOMENT: Final = 1.0


class Credentials(Protocol):
    """Who we are. Implementations are thread-safe."""

    def headers(self) -> list[tuple[str, str]]:
        """Headers for one request; renews what is about to expire. Raises KubeconfigError."""

    def certificate(self) -> ClientCertificate | None:
        """The TLS client certificate as it is now, if there is one; asked for every new connection."""

    def refresh(self) -> bool:
        """Called after a 401: fetch new credentials. False if there is nothing to renew."""


@dataclass(frozen=True)
class Limits:
    """Seconds to connect (TCP and TLS), and seconds of silence while waiting for an answer.

    `silence`: as `read`, on a connection that may be dead, where the request can be repeated or its fate be
    found out.
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
        contacts: Contacts | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._credentials = credentials
        self._user_agent = user_agent
        self.limits = limits or Limits()
        self._lock = threading.Lock()
        # By protocols; all of them made with this certificate.
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._certificate: ClientCertificate | None = None
        self.contacts = contacts or Contacts()
        self._pool = Pool(self.new_connection, monotonic)
        # Since when a connection that was used before gave nothing, until another one tells more.
        self._doubt: float | None = None
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        # As requests name the server.
        self.authority = f"{host}:{endpoint.port}"
        self._head = f"Host: {self.authority}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n"
        self._base = endpoint.base_path
        # Credentials as they were last told, and the part of a head that follows from them.
        self._said: tuple[list[tuple[str, str]], str] = ([], self._head)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        most: int = ANY_SIZE,
    ) -> Answer:
        """One exchange, whatever the status. Raises Unreachable, KubeconfigError.

        Raises AnswerTooLarge where the answer has more than `most` bytes.
        """
        answer = self._exchange(method, path, body, content_type, most)
        if answer.status == 401 and self._renew():
            answer = self._exchange(method, path, body, content_type, most)
        return answer

    def stream(self, path: str, silence: float) -> Stream | Answer:
        """GET whose body is read line by line, or the Answer where the server refused.

        `silence` is the longest wait for the next byte, in seconds. Raises Unreachable, KubeconfigError.
        """
        opened = self._open_stream(path, silence)
        if isinstance(opened, Answer) and opened.status == 401 and self._renew():
            opened = self._open_stream(path, silence)
        return opened

    def with_limits(self, limits: Limits) -> Session:
        """A session of its own connections to the same server as the same user, with other time limits."""
        return Session(
            self.endpoint,
            self._credentials,
            user_agent=self._user_agent,
            limits=limits,
            contacts=self.contacts,
        )

    def suspect(self, since: float) -> None:
        """A used connection gave nothing since that time: it is silent, or the server slow."""
        self._doubt = since
        self.contacts.doubt(since, Use.IDLE)

    def refuses_connections(self) -> bool:
        """True while nobody listens at the server's address. Costs one TCP handshake, no request."""
        try:
            socket.create_connection((self.endpoint.host, self.endpoint.port), self.limits.connect).close()
        except OSError:
            return True
        return False

    def close(self) -> None:
        """Close idle connections; those in use close when their exchange ends."""
        self._pool.clear()

    def _open_stream(self, path: str, silence: float) -> Stream | Answer:
        connection, response = self._open_exchange("GET", path, b"", "", silence)
        if response.status == 200:
            connection.use = Use.STREAM
            return Stream(connection, response)
        return self._complete("GET", path, connection, response)

    def _exchange(self, method: str, path: str, body: bytes, content_type: str, most: int) -> Answer:
        connection, response = self._open_exchange(method, path, body, content_type, self.limits.read)
        return self._complete(method, path, connection, response, most)

    def _complete(
        self, method: str, path: str, connection: Connection, response: Response, most: int = ANY_SIZE
    ) -> Answer:
        """Read the body and hand the connection back to the pool."""
        try:
            body = response.whole(most)
            if response.fields.get("content-encoding") == "gzip":
                body = unzipped(body, most)
        except OverlongBody:
            connection.close()
            raise AnswerTooLarge(most, method=method, path=path) from None
        except (OSError, HTTPException, zlib.error) as error:
            connection.close()
            raise self.unreachable(error, method, path, sent=True) from None
        answer = Answer(response.status, _retry_after(response), body)
        if response.will_close:
            connection.close()
        else:
            self._pool.give_back(connection)
        return answer

    def _open_exchange(
        self, method: str, path: str, body: bytes, content_type: str, read_timeout: float
    ) -> tuple[Connection, Response]:
        """Send on a pooled connection; once more on a new one if the pooled one turns out to be dead.

        Reads may be repeated after they were sent, writes only if the server cannot have got them whole. So
        a pooled connection that says nothing costs a read `Limits.silence`, while a write takes one that said
        something a moment ago, or a new one.
        """
        request = self.encode(method, path, body, content_type)
        safe = method == "GET"
        patient = read_timeout > self.limits.silence
        connection = self._pool.take(_MOMENT if patient and not safe else MAX_IDLE_SECONDS)
        if not connection.opened:
            return connection, self._first_attempt(connection, request, method, path, read_timeout)
        began = time.monotonic()
        patience = min(read_timeout, self.limits.silence) if safe else read_timeout
        try:
            response = self._attempt(connection, request, method, path, patience)
        except Unreachable as error:
            silent = isinstance(error.__cause__, TimeoutError)
            if silent:
                self.suspect(began)
            if (error.sent and not safe) or (silent and not patient):
                raise
        else:
            connection.wire.wait(read_timeout)
            return connection, response
        connection = self.new_connection()
        return connection, self._first_attempt(connection, request, method, path, read_timeout)

    def _first_attempt(
        self, connection: Connection, request: bytes, method: str, path: str, read_timeout: float
    ) -> Response:
        """On a new connection. Its answer shows that the server is well, and that another one was silent."""
        response = self._attempt(connection, request, method, path, read_timeout)
        doubt, self._doubt = self._doubt, None
        if doubt is not None:
            self.contacts.doubt(doubt, Use.IDLE, Use.STREAM)
        return response

    def _attempt(
        self, connection: Connection, request: bytes, method: str, path: str, read_timeout: float
    ) -> Response:
        sent = False
        try:
            if not connection.opened:
                connection.open()
            connection.send(request)
            sent = True
            return connection.receive(method, read_timeout)
        except (OSError, HTTPException) as error:
            connection.close()
            raise self.unreachable(error, method, path, sent=sent) from error

    def encode(self, method: str, path: str, body: bytes, content_type: str) -> bytes:
        """A request as it is sent, with credentials. Raises KubeconfigError."""
        known, head = self._said
        headers = self._credentials.headers()
        if headers != known:
            head = self._head + "".join([f"{name}: {value}\r\n" for name, value in headers])
            self._said = headers, head
        about = ""
        if body or method not in ("GET", "DELETE"):
            about = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return f"{method} {self._base}{path} HTTP/1.1\r\n{head}{about}\r\n".encode("latin-1") + body

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Header fields that say who sends a request. Raises KubeconfigError."""
        return ("user-agent", self._user_agent), *self._credentials.headers()

    def new_connection(self, protocols: tuple[str, ...] = (HTTP_1,)) -> Connection:
        """A connection to the server that is not open yet, and the protocols to offer it over TLS."""
        connection = Connection(self.endpoint, self._tls(protocols), self.limits.connect)
        self.contacts.add(connection)
        return connection

    def _tls(self, protocols: tuple[str, ...]) -> ssl.SSLContext | None:
        if not self.endpoint.tls:
            return None
        self._follow_certificate()
        with self._lock:
            context = self._contexts.get(protocols)
            if context is None:
                context = self._contexts[protocols] = tls_context(self.endpoint, self._certificate, protocols)
            return context

    def _follow_certificate(self) -> bool:
        """Whether there is another client certificate; connections made with the old one are dropped."""
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
        """The error for an exchange that broke; `sent` if the server may have got the whole request."""
        problem = f"{self.endpoint.server}: {explain(error)}"
        refused = isinstance(error, ConnectionRefusedError) and not self.endpoint.proxy
        return Unreachable(problem, sent=sent, refused=refused, method=method, path=path)


def _retry_after(response: Response) -> float | None:
    """Seconds of Retry-After; API servers send whole seconds, a date is ignored."""
    text = response.fields.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def explain(error: Exception) -> str:
    """One line about a failed connection that a person can act on."""
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
