"""The WSGI application: /mutate, /validate, /livez, /healthz, /readyz and /metrics.

It knows nothing of the server that runs it: the body limit holds for any WSGI server, with Content-Length
or chunked, and a body that trickles in is given up after a deadline.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.metrics import Metrics
from webhook.review import Request, review
from webhook.service import Service
from webhook.verdict import Verdict

MAX_BODY: Final = 7 << 20
READ_SECONDS: Final = 3.0
_STEP: Final = 1 << 15
_JSON: Final = "application/json"

log = logging.getLogger("muster.webhook")


class Readable(Protocol):
    """A WSGI input."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""


class BodyTooLarge(Exception):
    """More than MAX_BODY bytes."""


class BodyUnreadable(Exception):
    """The body did not come in time, or its transfer encoding is broken."""


class Lifecycle:
    """Whether the process is about to stop: readiness is withdrawn before the server goes away."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """Withdraw readiness."""
        self._stopping.set()


def create_app(service: Service, metrics: Metrics, lifecycle: Lifecycle | None = None) -> Flask:
    """The application on one service."""
    app = Flask("muster-webhook", static_folder=None)
    life = lifecycle or Lifecycle()

    def admit(decide: Callable[[Request], Verdict]) -> Response:
        if request.mimetype != _JSON:
            return _problem(metrics, 415, f"Content-Type must be {_JSON}")
        try:
            body = read_body(request.environ["wsgi.input"], request.content_length)
        except BodyTooLarge:
            return _problem(metrics, 413, f"the body is larger than {MAX_BODY} bytes", close=True)
        except BodyUnreadable as error:
            return _problem(metrics, 400, str(error), close=True)
        started = time.perf_counter()
        answer = review(body, decide)
        metrics.reviewed(answer, time.perf_counter() - started)
        return Response(answer.body, answer.status, content_type=_JSON)

    @app.post("/mutate")
    def mutate() -> Response:
        return admit(service.mutate)

    @app.post("/validate")
    def validate() -> Response:
        return admit(service.validate)

    @app.get("/livez")
    @app.get("/healthz")
    def livez() -> Response:
        return _text(200, "ok")

    @app.get("/readyz")
    def readyz() -> Response:
        if life.stopping:
            return _text(503, "stopping")
        unsynced = service.cache.unsynced
        return _text(503, f"waiting for {', '.join(unsynced)}") if unsynced else _text(200, "ok")

    @app.get("/metrics")
    def expose() -> Response:
        synced = not service.cache.unsynced
        return Response(metrics.render(synced), content_type="text/plain; version=0.0.4; charset=utf-8")

    @app.after_request
    def part(response: Response) -> Response:
        if life.stopping:
            response.headers["Connection"] = "close"
        return response

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Response:
        return _problem(metrics, error.code or 400, error.description or error.name)

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        # Broken code must not decide: the failurePolicy does, as for a webhook that is not there.
        log.exception("the request could not be answered", exc_info=error)
        return _problem(metrics, 503, "internal error; see the webhook's log")

    return app


def read_body(stream: Readable, length: int | None, monotonic: Callable[[], float] = time.monotonic) -> bytes:
    """The whole body in bounded memory and time. Raises BodyTooLarge and BodyUnreadable."""
    if length is not None and length > MAX_BODY:
        raise BodyTooLarge
    deadline = monotonic() + READ_SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            part = stream.read(_STEP)
        except TimeoutError:
            raise BodyUnreadable("the body did not come in time") from None
        except (OSError, ValueError) as error:
            # Servers report an oversized chunk as an OSError without a number of its own.
            if isinstance(error, OSError) and "too large" in str(error).lower():
                raise BodyTooLarge from None
            raise BodyUnreadable("the body's transfer encoding is broken") from None
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > MAX_BODY:
            raise BodyTooLarge
        if monotonic() > deadline:
            raise BodyUnreadable("the body did not come in time")
        parts.append(part)


def _text(code: int, text: str) -> Response:
    return Response(text + "\n", code, content_type="text/plain; charset=utf-8")


def _problem(metrics: Metrics, code: int, message: str, *, close: bool = False) -> Response:
    """A metav1.Status, for requests that are no reviews. `close`: the rest of the body is not read."""
    metrics.failed(code)
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    response = Response(msgspec.json.encode(status), code, content_type=_JSON)
    if close:
        response.headers["Connection"] = "close"
    return response
