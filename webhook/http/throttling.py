"""Throttles costly reviews, so that they do not delay the others.

Python computes on one thread at a time: a client that sends costly reviews without a pause would slow down
all others. So large reviews are judged one at a time, and the answer to a costly review is delayed in
proportion to its cost. Only its own client waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from webhook.http.deadline import remaining

# A typical review has some KiB and costs less than a millisecond.
LARGE_BYTES: Final = 256 << 10
FREE_SECONDS: Final = 0.01
# The delay as a multiple of the cost; never more than half of the time until the deadline.
REST: Final = 30.0
LONGEST_REST: Final = 1.0
# The share of the time until the deadline that a large review may wait for its turn.
PATIENCE: Final = 0.8
# Threads that may be delayed at the same time; beyond that, costly reviews are answered at once.
MOST_RESTING: Final = 16
# Threads that may wait for the turn of a large review; the others, of 128, are for typical ones.
MOST_WAITING: Final = 32

_local = threading.local()


def release_turn() -> None:
    """Let the next large review begin: this thread will now wait rather than compute."""
    held: threading.Lock | None = getattr(_local, "turn", None)
    _local.turn = None
    if held is not None:
        held.release()


class ReviewThrottle:
    """Delays costly reviews and gives turns to large ones. Thread-safe.

    `sleep` and `thread_time` are those of the time module.
    """

    def __init__(
        self,
        sleep: Callable[[float], object] = time.sleep,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._sleep = sleep
        self._thread_time = thread_time
        self._large = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)
        self._resting = threading.BoundedSemaphore(MOST_RESTING)

    @contextmanager
    def delaying_costly(self) -> Iterator[None]:
        """Delay the end of the `with` body if it took much processor time."""
        began = self._thread_time()
        yield
        spent = self._thread_time() - began
        if spent > FREE_SECONDS and self._resting.acquire(blocking=False):
            try:
                self._sleep(max(0.0, min(spent * REST, LONGEST_REST, remaining() / 2)))
            finally:
                self._resting.release()

    @contextmanager
    def turn(self, size: int) -> Iterator[bool]:
        """The turn of a body of `size` bytes: large ones are judged one at a time.

        False if its turn does not come before the deadline, or if too many wait already.
        """
        if size <= LARGE_BYTES:
            yield True
            return
        turn = self._take_turn()
        outer = getattr(_local, "turn", None)
        _local.turn = self._large if turn else None
        try:
            yield turn
        finally:
            release_turn()
            _local.turn = outer

    def _take_turn(self) -> bool:
        if self._large.acquire(blocking=False):
            return True
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._large.acquire(timeout=max(0.0, min(remaining() * PATIENCE, threading.TIMEOUT_MAX)))
        finally:
            self._waiting.release()
