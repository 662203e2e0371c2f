"""The WSGI application: /mutate, /validate, /livez, /healthz, /readyz and /metrics.

It knows nothing of the server that runs it: limits of body, memory and time hold for any WSGI server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.body import (
    MAX_BODY,
    READ_SECONDS,
    BodyTooLarge,
    BodyUnreadable,
    Memory,
    TooManyBodies,
    read_body,
)
from webhook.deadline import seconds_for, within
from webhook.freshness import Freshness
from webhook.logs import log_answer
from webhook.metrics import Metrics
from webhook.review import Request, review
from webhook.service import Service
from webhook.verdict import Verdict

# A server may put a function under this key of the environ; it is called when the body was read.
BODY_READ: Final = "muster.body_read"
_JSON: Final = "application/json"

log = logging.getLogger("muster.webhook")


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


def create_app(
    service: Service,
    metrics: Metrics,
    lifecycle: Lifecycle | None = None,
    freshness: Freshness | None = None,
) -> Flask:
    """The application on one service."""
    app = Flask("muster-webhook", static_folder=None)
    life, fresh, memory = lifecycle or Lifecycle(), freshness or Freshness(), Memory()

    def admit(decide: Callable[[Request], Verdict]) -> Response:
        seconds = seconds_for(request.args.get("timeout"))
        with memory.claims() as claim, within(seconds):
            body = _body(metrics, claim, seconds)
            if isinstance(body, Response):
                return body
            request.environ.get(BODY_READ, _nothing)()
            started = time.perf_counter()
            with metrics.in_flight():
                answer = review(body, lambda asked: fresh.noted(decide(asked)))
            took = time.perf_counter() - started
        metrics.reviewed(answer, took)
        log_answer(answer, took)
        return Response(answer.body, answer.status, content_type=_JSON)

    @app.post("/mutate")
    def mutate() -> Response:
        return admit(service.mutate)

    @app.post("/validate")
    def validate() -> Response:
        return admit(service.validate)

    @app.get("/metrics")
    def expose() -> Response:
        text = metrics.render(not service.cache.unsynced, fresh.ages())
        return Response(text, content_type="text/plain; version=0.0.4; charset=utf-8")

    _add_health(app, service, life)
    _add_errors(app, metrics)
    return app


def _add_health(app: Flask, service: Service, life: Lifecycle) -> None:
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

    @app.after_request
    def part(response: Response) -> Response:
        if life.stopping:
            response.headers["Connection"] = "close"
        return response


def _add_errors(app: Flask, metrics: Metrics) -> None:
    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Response:
        return _problem(metrics, error.code or 400, error.description or error.name)

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        # Broken code must not decide: the failurePolicy does, as for a webhook that is not there.
        log.exception("the request could not be answered", exc_info=error)
        return _problem(metrics, 503, "internal error; see the webhook's log")


def _body(metrics: Metrics, claim: Callable[[int], None], seconds: float) -> bytes | Response:
    """The body of the request at hand, or the answer where it cannot be had."""
    if request.mimetype != _JSON:
        return _problem(metrics, 415, f"Content-Type must be {_JSON}")
    try:
        stream, length = request.environ["wsgi.input"], request.content_length
        return read_body(stream, length, claim, min(READ_SECONDS, seconds))
    except BodyTooLarge:
        return _problem(metrics, 413, f"the body is larger than {MAX_BODY} bytes", close=True)
    except BodyUnreadable as error:
        return _problem(metrics, 400, str(error), close=True)
    except TooManyBodies:
        return _problem(metrics, 503, "too many large reviews at the same time", close=True)


def _nothing() -> None:
    """Servers of others want to know nothing."""


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
