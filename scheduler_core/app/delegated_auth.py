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

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.model.kinds import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from scheduler_core.model.writes import Create

# Seconds for which a result is cached; a revoked right ends after this time at the latest.
HOLDS_SECONDS: Final = 10.0
_MOST_ANSWERS: Final = 256
_MOST_TOKEN: Final = 16 << 10
# Reviews run one at a time, so that clients cannot flood the API server. At most this number of requests
# waits: each occupies a thread, even after its client has gone.
MOST_WAITING: Final = 8
_WAIT_SECONDS: Final = 5.0

Answer = tuple[int, str]
_BUSY: Final[Answer] = (503, "too many requests wait for authorization")


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct):
    """The status of a TokenReview or a SubjectAccessReview."""

    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class DelegatedAuthorizer:
    """The gate of the HTTP port. Thread-safe."""

    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
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
        if not self._asking.acquire(timeout=_WAIT_SECONDS):
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
            known = self._status(Create(TOKEN_REVIEWS, "", {"spec": {"token": token}}))
            user = known.user
            if not known.authenticated or not user.username:
                return 401, "the API server does not know this token"
            who = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
            about = {"nonResourceAttributes": {"path": path, "verb": "get"}}
            access = self._status(Create(SUBJECT_ACCESS_REVIEWS, "", {"spec": {**who, **about}}))
        except (MusterError, msgspec.MsgspecError) as error:
            return 503, f"the API server could not be asked: {error}"
        if access.allowed and not access.denied:
            return 200, ""
        return 403, f"user {user.username} cannot get path {path}"

    def _status(self, review: Create) -> _Status:
        return decode(self._client.create(review), _Review).status
