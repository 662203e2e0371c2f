"""When a review must be answered: before the API server gives up, which it tells in `?timeout=`.

The decision itself takes no time worth speaking of; what may take long are questions to the API server. So a
question is not begun that could outlast the time left, and the decision is made without its answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Final

from scheduler_core.kube.answers import Answer
from scheduler_core.kube.requests import JSON
from scheduler_core.kube.response import ANY_SIZE
from scheduler_core.kube.session import Session
from scheduler_core.model.duration import parse_duration

MOST_SECONDS: Final = 3.0
LEAST_SECONDS: Final = 0.1
# For the way there and back, and for a machine that is busy.
MARGIN: Final = 0.2
# API servers write `10s`; anything longer is none of theirs.
MAX_LENGTH: Final = 32

_local = threading.local()


def seconds_for(timeout: str | None) -> float:
    """Seconds to answer in, for a caller that waits for `timeout` (a Go duration; None: not known)."""
    patience = parse_duration(timeout) if timeout and len(timeout) <= MAX_LENGTH else None
    if patience is None or patience < 0:
        return MOST_SECONDS
    return min(MOST_SECONDS, max(LEAST_SECONDS, patience * (1 - MARGIN)))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What this thread does inside must be over in so many seconds."""
    outer: float | None = getattr(_local, "end", None)
    _local.end = time.monotonic() + seconds
    try:
        yield
    finally:
        _local.end = outer


def remaining() -> float:
    """Seconds left of this thread's time; infinite outside of a request."""
    end: float | None = getattr(_local, "end", None)
    return inf if end is None else end - time.monotonic()


class BoundedSession(Session):
    """Exchanges that are not begun where the answer could come too late."""

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        most: int = ANY_SIZE,
    ) -> Answer:
        """As the parent's. Raises Unreachable at once where too little time is left."""
        if remaining() < self.limits.read:
            raise self.unreachable(TimeoutError(), method, path, sent=False)
        return super().request(method, path, body, content_type, most)
