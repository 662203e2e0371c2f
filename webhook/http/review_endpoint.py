"""Answers one HTTP request that carries an admission review, in bounded memory and time.

The answer and its metrics are the same whichever way a request takes through the application
(`webhook.http.app`) and whichever WSGI server runs it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

import msgspec
from werkzeug.wsgi import get_content_length

from scheduler_core.serving.stream import RequestUnreadable
from webhook.http.admission_review import ReviewRequest, refuse_pod, refuse_unread, review
from webhook.http.body import (
    HEAD_BYTES,
    MAX_BODY,
    READ_SECONDS,
    BodyMemory,
    BodyTooLarge,
    TooManyBodies,
    read_body,
)
from webhook.http.client_certificates import ClientCertificates
from webhook.http.deadline import seconds_for, within
from webhook.http.review_log import log_review
from webhook.http.throttling import ReviewThrottle
from webhook.metrics import WebhookMetrics
from webhook.policy.verdict import Verdict
from webhook.view.freshness import Freshness

# A server may put a function under this key of the environ; the endpoint calls it once the body is read.
BODY_READ: Final = "muster.body_read"
JSON: Final = "application/json"

log = logging.getLogger("muster.webhook")

Environ = dict[str, Any]
Decide = Callable[[ReviewRequest], Verdict]


class Reply(NamedTuple):
    """An HTTP status and a JSON body. `close`: the rest of the request's body stays unread."""

    code: int
    body: bytes
    close: bool = False


class ReviewEndpoint:
    """Reads, decides, counts and logs reviews. Thread-safe.

    All paths share its limits of `memory` and of load (`throttle`).
    """

    def __init__(self, metrics: WebhookMetrics, fresh: Freshness, clients: ClientCertificates) -> None:
        self._metrics = metrics
        self._fresh = fresh
        self._clients = clients
        self.memory = BodyMemory()
        self.throttle = ReviewThrottle()

    def answer(self, environ: Environ, decide: Decide) -> Reply:
        """The reply to a POST with a review; `decide` gives the verdict. Never raises an Exception."""
        try:
            return self._admit(environ, decide)
        except Exception:
            return self.fail()

    def refuse(self, code: int, message: str, *, close: bool = False) -> Reply:
        """A metav1.Status, for requests that are not reviews."""
        self._metrics.failed(code)
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
        return Reply(code, msgspec.json.encode(status), close)

    def fail(self) -> Reply:
        """The reply after an unforeseen exception, which is logged: 503, and the failurePolicy decides."""
        log.exception("the request could not be answered")
        return self.refuse(503, "internal error; see the webhook's log")

    def _admit(self, environ: Environ, decide: Decide) -> Reply:
        if not self._clients.may_ask(environ):
            said = "reviews are for clients whose certificate is known here"
            return self.refuse(403, said, close=True)
        seconds = seconds_of(environ.get("QUERY_STRING", ""))
        with within(seconds), self.throttle.delaying_costly(), self.memory.claims() as claim:
            try:
                body = self._body(environ, claim, seconds)
            except TooManyBodies as error:
                return self._too_many(error.head)
            except BodyTooLarge as error:
                return self._too_large(error.head)
            if isinstance(body, Reply):
                return body
            environ.get(BODY_READ, _nothing)()
            started = time.perf_counter()
            with self._metrics.in_flight(), self.throttle.turn(len(body)) as turn:
                if not turn:
                    return self._too_many(body[:HEAD_BYTES])
                answer = review(body, lambda asked: self._fresh.noted(decide(asked)))
            took = time.perf_counter() - started
        self._metrics.reviewed(answer, took)
        log_review(answer, took)
        return Reply(answer.status, answer.body)

    def _too_many(self, head: bytes) -> Reply:
        """Refuse a large review that cannot be judged now.

        Without a verdict failurePolicy `Ignore` would let it pass, and a tenant who sends many large objects
        could bring that about.
        """
        self._metrics.failed(503)
        answer = refuse_unread(head, "too many large reviews at the same time; try again")
        return Reply(answer.status, answer.body)

    def _too_large(self, head: bytes) -> Reply:
        said = f"the body of the review is larger than {MAX_BODY} bytes"
        refused = refuse_pod(head, said)
        if refused is None:
            return self.refuse(413, said, close=True)
        self._metrics.reviewed(refused, 0.0)
        log_review(refused, 0.0)
        return Reply(refused.status, refused.body)

    def _body(self, environ: Environ, claim: Callable[[int], None], seconds: float) -> bytes | Reply:
        """The body of the request, or the reply where the body cannot be read.

        Raises TooManyBodies and BodyTooLarge.
        """
        if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != JSON:
            return self.refuse(415, f"Content-Type must be {JSON}")
        try:
            length = get_content_length(environ)
            return read_body(environ["wsgi.input"], length, claim, min(READ_SECONDS, seconds))
        except RequestUnreadable as error:
            return self.refuse(400, str(error), close=True)


@lru_cache(maxsize=64)
def seconds_of(query: str) -> float:
    """The seconds that a review may take, by the query of its URL."""
    return seconds_for(parse_qs(query).get("timeout", [None])[0])


def _nothing() -> None:
    """The default callback after the body is read: does nothing."""
