"""Delegated authentication and authorization of the HTTP port, as in Kubernetes components.

A TokenReview authenticates the bearer token of a request, and a SubjectAccessReview authorizes its user to
`get` the page's path. Without an answer of the API server access is denied.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from scheduler_core.errors import MusterError
from scheduler_core.kube.access_reviews import AccessReviews
from scheduler_core.kube.client import Client

# Seconds for which a result is cached; a revoked right ends after this time at the latest.
HOLDS_SECONDS: Final = 10.0
_MOST_ANSWERS: Final = 256
_MOST_TOKEN: Final = 16 << 10
# Reviews run one at a time, so that clients cannot flood the API server. At most this number of requests
# waits: each occupies a thread, even after its client has gone.
MOST_WAITING: Final = 8
WAIT_SECONDS: Final = 5.0

Answer = tuple[int, str]
_BUSY: Final[Answer] = (503, "too many requests wait for authorization")


class DelegatedAuthorizer:
    """The gate of the HTTP port. Thread-safe."""

    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._reviews = AccessReviews(client)
        self._monotonic = monotonic
        self._waiting = threading.Semaphore(MOST_WAITING)
        self._asking = threading.Lock()
        self._answers: OrderedDict[tuple[bytes, str], tuple[float, Answer]] = OrderedDict()

    def __call__(self, path: str, authorization: str) -> Answer:
        """Status and text for a request for a path with this Authorization header."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _MOST_TOKEN:
            return (
                401,
                f"{path} needs the bearer token of a user with the right to get it (docs/operations.md)",
            )
        # The token itself is not stored.
        key = (hashlib.sha256(token.encode()).digest(), path)
        if answer := self._kept(key):
            return answer
        if not self._waiting.acquire(blocking=False):
            return _BUSY
        try:
            return self._in_turn(key, token)
        finally:
            self._waiting.release()

    def _kept(self, key: tuple[bytes, str]) -> Answer | None:
        until, answer = self._answers.get(key, (0.0, None))
        return answer if self._monotonic() < until else None

    def _in_turn(self, key: tuple[bytes, str], token: str) -> Answer:
        if not self._asking.acquire(timeout=WAIT_SECONDS):
            return _BUSY
        try:
            # An earlier request may have cached the same result.
            if answer := self._kept(key):
                return answer
            self._answers.pop(key, None)
            until = self._monotonic() + HOLDS_SECONDS
            answer = self._ask(key[1], token)
            if answer[0] != 503:
                self._answers[key] = until, answer
            if len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
            return answer
        finally:
            self._asking.release()

    def _ask(self, path: str, token: str) -> Answer:
        try:
            user = self._reviews.user_of(token)
            if user is None:
                return 401, "the API server does not know this token"
            allowed = self._reviews.may_get_path(user, path)
        except MusterError as error:
            return 503, f"the API server could not be asked: {error}"
        if allowed:
            return 200, ""
        return 403, f"user {user.username} cannot get path {path}"
