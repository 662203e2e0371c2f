"""Client of HTTP servers outside Kubernetes, such as extenders: one POST with a limit of time and size.

Unlike connections to the API server, these connections are not reused, redirects are not followed, and the
timeout covers the whole call, however slowly the bytes come.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final, cast

from scheduler_core.errors import MusterError
from scheduler_core.kube.http.endpoint import ClientCertificate, Endpoint, tls_context
from scheduler_core.kube.http.response import Response, ResponseBodyTooLarge
from scheduler_core.kube.http.session import explain
from scheduler_core.kube.http.transport import Transport

MOST_BYTES: Final = 16 << 20

TIMEOUT: Final = "timeout"
CONNECTION: Final = "connection"
STATUS: Final = "status"
TOO_LARGE: Final = "too-large"


class CallFailed(MusterError):
    """A call without a response of 200: `reason` is a constant of this module, `url` names the call.

    `sent`: whether the server may have received the whole request.
    """

    def __init__(self, url: str, reason: str, problem: str, *, sent: bool = True) -> None:
        self.url = url
        self.reason = reason
        self.problem = problem
        self.sent = sent
        super().__init__(url, reason, problem)

    def __str__(self) -> str:
        return f"POST {self.url}: {self.problem}"


class Caller:
    """POSTs of JSON to one server, from any number of threads. `seconds` is the timeout of one call.

    Raises KubeconfigError for certificates that are not usable.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        seconds: float,
        certificate: ClientCertificate | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self.seconds = seconds
        self._monotonic = monotonic
        self._context = tls_context(endpoint, certificate) if endpoint.tls else None
        self._head = (
            f"Host: {endpoint.authority}\r\nUser-Agent: muster\r\nAccept: application/json\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n"
        )

    def _connected(self, deadline: float) -> socket.socket:
        """A connection to the first address of the host that accepts one, within the time left."""
        host, port = self.endpoint.host, self.endpoint.port
        failed: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            left = _remaining(deadline, self._monotonic)
            raw = socket.socket(family, kind, protocol)
            try:
                raw.settimeout(left)
                raw.connect(address)
                # No part of a request waits until the ones before are acknowledged.
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return raw
            except OSError as error:
                raw.close()
                failed = error
        raise failed or OSError("the host has no address")

    def post(self, verb: str, body: bytes, most: int = MOST_BYTES) -> bytes:
        """The body of a response of 200, of at most `most` bytes. Raises CallFailed."""
        url = f"{self.endpoint.server.rstrip('/')}/{verb}"
        path = f"{self.endpoint.base_path}/{verb}"
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        deadline = self._monotonic() + self.seconds
        raw: socket.socket | None = None
        sent = False
        try:
            raw = self._connected(deadline)
            transport = Transport(cast(socket.socket, _DeadlineSocket(raw, deadline, self._monotonic)))
            if self._context is not None:
                transport.start_tls(self._context, self.endpoint.tls_server_name or self.endpoint.host)
            sent = True
            transport.write(head.encode("latin-1", "replace") + body)
            return _answer(transport, url, most)
        except ResponseBodyTooLarge:
            problem = f"the answer has more than {most} bytes"
            raise CallFailed(url, TOO_LARGE, problem) from None
        except TimeoutError:
            problem = f"no complete answer within {self.seconds:g} s"
            raise CallFailed(url, TIMEOUT, problem, sent=sent) from None
        except (OSError, HTTPException, ValueError) as error:
            raise CallFailed(url, CONNECTION, explain(error), sent=sent) from None
        finally:
            if raw is not None:
                raw.close()


def _answer(transport: Transport, url: str, most: int) -> bytes:
    response = Response(transport, method="POST")  # type: ignore[arg-type]
    try:
        response.begin()
        if response.status != 200:
            raise CallFailed(url, STATUS, f"it answered {response.status}, not 200")
        return response.whole(most)
    finally:
        response.close()


def _remaining(deadline: float, monotonic: Callable[[], float]) -> float:
    """The seconds until a deadline. Raises TimeoutError after it."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _DeadlineSocket:
    """A socket whose operations end at a deadline."""

    def __init__(self, raw: socket.socket, deadline: float, monotonic: Callable[[], float]) -> None:
        self._raw = raw
        self._deadline = deadline
        self._monotonic = monotonic

    def _limit(self) -> None:
        self._raw.settimeout(_remaining(self._deadline, self._monotonic))

    def recv(self, size: int) -> bytes:
        self._limit()
        return self._raw.recv(size)

    def send(self, data: Any) -> int:
        self._limit()
        return self._raw.send(data)

    def sendall(self, data: Any) -> None:
        self._limit()
        self._raw.sendall(data)
