"""The deadline of a review: the timeout of the API server, which it sends as `?timeout=`, less a margin.

Deciding takes milliseconds; only requests to the API server may take long. A request that could outlast the
deadline is not sent, and the decision is made without its answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, Final

from scheduler_core.kube.http.response_parser import ApiResponse
from scheduler_core.kube.http.session import Session
from scheduler_core.model.duration import parse_duration

MOST_SECONDS: Final = 3.0
LEAST_SECONDS: Final = 0.1
# For the network, and for a busy machine.
MARGIN: Final = 0.2
# API servers write `10s`; longer texts do not come from them.
MAX_LENGTH: Final = 32

_local = threading.local()


def seconds_for(timeout: str | None) -> float:
    """Seconds to answer in, for a caller that waits for `timeout` (a Go duration; None: not known)."""
    given = parse_duration(timeout) if timeout and len(timeout) <= MAX_LENGTH else None
    if given is None or given < 0:
        return MOST_SECONDS
    return min(MOST_SECONDS, max(LEAST_SECONDS, given * (1 - MARGIN)))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Set the deadline of this thread to `seconds` from now, for the body of the `with`."""
    outer: float | None = getattr(_local, "end", None)
    _local.end = time.monotonic() + seconds
    try:
        yield
    finally:
        _local.end = outer


def remaining() -> float:
    """Seconds until the deadline of this thread; infinite outside a request."""
    end: float | None = getattr(_local, "end", None)
    return inf if end is None else end - time.monotonic()


class BoundedSession(Session):
    """A session that sends no request whose answer could arrive after the deadline."""

    def request(self, method: str, path: str, *args: Any, **kwargs: Any) -> ApiResponse:
        """One exchange, as in Session; raises Unreachable at once if too little time is left."""
        if remaining() < self.limits.read:
            raise self.unreachable(TimeoutError(), method, path, sent=False)
        return super().request(method, path, *args, **kwargs)
