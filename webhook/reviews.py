"""The paths that every pod of the cluster waits for, as plain WSGI in front of the Flask application.

Flask's routing and contexts would cost more than the decision. What is decided and how it is counted is the
same for any server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

import msgspec
from werkzeug.wsgi import get_content_length

from webhook.body import (
    HEAD_BYTES,
    MAX_BODY,
    READ_SECONDS,
    BodyTooLarge,
    BodyUnreadable,
    Memory,
    TooManyBodies,
    read_body,
)
from webhook.clients import Clients
from webhook.deadline import seconds_for, within
from webhook.freshness import Freshness
from webhook.heads import excess
from webhook.lanes import Lanes
from webhook.lifecycle import Lifecycle
from webhook.logs import log_answer
from webhook.metrics import Metrics
from webhook.review import Request, refuse_pod, refuse_unread, review
from webhook.verdict import Verdict

# A server may put a function under this key of the environ; it is called when the body was read.
BODY_READ: Final = "muster.body_read"
JSON: Final = "application/json"

log = logging.getLogger("muster.webhook")

Environ = dict[str, Any]
Wsgi = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
Decide = Callable[[Request], Verdict]


class Reply(NamedTuple):
    """An answer. `close`: the rest of the request's body is not read."""

    code: int
    body: bytes
    close: bool = False


class Reviews:
    """WSGI: a POST to one of `paths` is a review, everything else is for `rest`."""

    def __init__(
        self,
        rest: Wsgi,
        paths: Mapping[str, Decide],
        metrics: Metrics,
        life: Lifecycle,
        fresh: Freshness,
        clients: Clients,
    ) -> None:
        self._rest = rest
        self._paths = dict(paths)
        self._metrics = metrics
        self._life = life
        self._fresh = fresh
        self._clients = clients
        self._memory = Memory()
        self._lanes = Lanes()

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        refused = excess(environ)
        decide = self._paths.get(environ.get("PATH_INFO", ""))
        if refused is not None:
            reply = problem(self._metrics, *refused, close=True)
        elif decide is None or environ["REQUEST_METHOD"] != "POST":
            return self._rest(environ, start_response)
        else:
            reply = self._answer(environ, decide)
        headers = [("Content-Type", JSON), ("Content-Length", str(len(reply.body)))]
        if reply.close or self._life.stopping:
            headers.append(("Connection", "close"))
        start_response(_status(reply.code), headers)
        return (reply.body,)

    def _answer(self, environ: Environ, decide: Decide) -> Reply:
        try:
            return self._admit(environ, decide)
        except Exception:
            return broken(self._metrics)

    def _admit(self, environ: Environ, decide: Decide) -> Reply:
        if not self._clients.may_ask(environ):
            said = "reviews are for clients whose certificate is known here"
            return problem(self._metrics, 403, said, close=True)
        seconds = _seconds(environ.get("QUERY_STRING", ""))
        with within(seconds), self._lanes.resting(), self._memory.claims() as claim:
            try:
                body = self._body(environ, claim, seconds)
            except TooManyBodies as error:
                return self._crowded(error.head)
            except BodyTooLarge as error:
                return self._too_large(error.head)
            if isinstance(body, Reply):
                return body
            environ.get(BODY_READ, _nothing)()
            started = time.perf_counter()
            with self._metrics.in_flight(), self._lanes.of(len(body)) as turn:
                if not turn:
                    return self._crowded(body[:HEAD_BYTES])
                answer = review(body, lambda asked: self._fresh.noted(decide(asked)))
            took = time.perf_counter() - started
        self._metrics.reviewed(answer, took)
        log_answer(answer, took)
        return Reply(answer.status, answer.body)

    def _crowded(self, head: bytes) -> Reply:
        """A large review for which there is no room now is refused.

        Without a verdict failurePolicy would let it pass: whoever sends many large objects could choose so.
        """
        self._metrics.failed(503)
        answer = refuse_unread(head, "too many large reviews at the same time; try again")
        return Reply(answer.status, answer.body)

    def _too_large(self, head: bytes) -> Reply:
        said = f"the body of the review is larger than {MAX_BODY} bytes"
        refused = refuse_pod(head, said)
        if refused is None:
            return problem(self._metrics, 413, said, close=True)
        self._metrics.reviewed(refused, 0.0)
        log_answer(refused, 0.0)
        return Reply(refused.status, refused.body)

    def _body(self, environ: Environ, claim: Callable[[int], None], seconds: float) -> bytes | Reply:
        """The body of the request at hand, or the answer where it cannot be had.

        Raises TooManyBodies and BodyTooLarge.
        """
        if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != JSON:
            return problem(self._metrics, 415, f"Content-Type must be {JSON}")
        try:
            length = get_content_length(environ)
            return read_body(environ["wsgi.input"], length, claim, min(READ_SECONDS, seconds))
        except BodyUnreadable as error:
            return problem(self._metrics, 400, str(error), close=True)


def problem(metrics: Metrics, code: int, message: str, *, close: bool = False) -> Reply:
    """A metav1.Status, for requests that are no reviews."""
    metrics.failed(code)
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return Reply(code, msgspec.json.encode(status), close)


def broken(metrics: Metrics) -> Reply:
    """For the exception at hand: broken code must not decide; the failurePolicy does, as if we were away."""
    log.exception("the request could not be answered")
    return problem(metrics, 503, "internal error; see the webhook's log")


@lru_cache(maxsize=64)
def _seconds(query: str) -> float:
    return seconds_for(parse_qs(query).get("timeout", [None])[0])


@lru_cache(maxsize=64)
def _status(code: int) -> str:
    return f"{code} {HTTPStatus(code).phrase}"


def _nothing() -> None:
    """Servers of others want to know nothing."""
