"""Calls to servers of others, which may hang, drip and lie: one POST, with an end in time and in size.

Unlike those of the API server, such connections are not kept, answers of 3xx are not followed, and the time
counts in total: from the first packet to the last byte, however many there are in between.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final, cast

from scheduler_core.errors import MusterError
from scheduler_core.kube.endpoint import ClientCertificate, Endpoint, tls_context
from scheduler_core.kube.response import OverlongBody, Response
from scheduler_core.kube.session import explain
from scheduler_core.kube.wire import Wire

MOST_BYTES: Final = 16 << 20

TIMEOUT: Final = "timeout"
CONNECTION: Final = "connection"
STATUS: Final = "status"
TOO_LARGE: Final = "too-large"


class CallFailed(MusterError):
    """A call without an answer of 200: `reason` is one of this module's, `url` names the call.

    `sent`: whether the server may have got the request whole.
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
    """POSTs of JSON to one server, from any number of threads. `seconds` is what one call takes at most.

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
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        self._head = (
            f"Host: {host}:{endpoint.port}\r\nUser-Agent: muster\r\nAccept: application/json\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n"
        )

    def _connected(self, ends: float) -> socket.socket:
        """A connection to the first address of the host that answers; all together have until then."""
        host, port = self.endpoint.host, self.endpoint.port
        failed: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            left = self._left(ends)
            raw = socket.socket(family, kind, protocol)
            try:
                raw.settimeout(left)
                raw.connect(address)
                return raw
            except OSError as error:
                raw.close()
                failed = error
        raise failed or OSError("the host has no address")

    def _left(self, ends: float) -> float:
        left = ends - self._monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def post(self, verb: str, body: bytes, most: int = MOST_BYTES) -> bytes:
        """The body, of `most` bytes at most, of an answer of 200. Raises CallFailed."""
        url = f"{self.endpoint.server.rstrip('/')}/{verb}"
        path = f"{self.endpoint.base_path}/{verb}"
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        ends = self._monotonic() + self.seconds
        raw: socket.socket | None = None
        sent = False
        try:
            raw = self._connected(ends)
            wire = Wire(cast(socket.socket, _Ending(raw, ends, self._monotonic)))
            if self._context is not None:
                wire.secure(self._context, self.endpoint.tls_server_name or self.endpoint.host)
            sent = True
            wire.write(head.encode("latin-1", "replace") + body)
            return _answer(wire, url, most)
        except OverlongBody:
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


def _answer(wire: Wire, url: str, most: int) -> bytes:
    response = Response(wire, method="POST")  # type: ignore[arg-type]
    try:
        response.begin()
        if response.status != 200:
            raise CallFailed(url, STATUS, f"it answered {response.status}, not 200")
        return response.whole(most)
    finally:
        response.close()


class _Ending:
    """A socket of which nothing waits beyond one moment."""

    def __init__(self, raw: socket.socket, ends: float, monotonic: Callable[[], float]) -> None:
        self._raw = raw
        self._ends = ends
        self._monotonic = monotonic

    def _limit(self) -> None:
        left = self._ends - self._monotonic()
        if left <= 0:
            raise TimeoutError
        self._raw.settimeout(left)

    def recv(self, size: int) -> bytes:
        self._limit()
        return self._raw.recv(size)

    def send(self, data: Any) -> int:
        self._limit()
        return self._raw.send(data)

    def sendall(self, data: Any) -> None:
        self._limit()
        self._raw.sendall(data)
