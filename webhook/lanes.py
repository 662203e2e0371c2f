"""Dear reviews wait, so that all others do not.

Python computes on one thread at a time: whoever sends dear requests without a pause would slow down all.
So large reviews are judged one after the other, and a review that cost much is answered only after a rest in
proportion. Its client, which waits for the answer, pays with its own time; nobody else notices.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from webhook.deadline import remaining

# A usual review has some KiB and costs less than a millisecond.
LARGE_BYTES: Final = 256 << 10
FREE_SECONDS: Final = 0.01
# Times what it cost; never more than half of the time that its client still waits.
REST: Final = 30.0
LONGEST_REST: Final = 1.0
# Of the time that is left, to wait for one's turn; the rest is for the answer.
PATIENCE: Final = 0.8
# Threads that may rest at the same time; beyond it dear reviews are answered at once.
MOST_RESTING: Final = 16
# Threads that may wait for the turn of a large review; the others, of 128, are for usual ones.
MOST_WAITING: Final = 32

_local = threading.local()


def leave() -> None:
    """What this thread does next waits for others and computes little: the next large review may begin."""
    lane: threading.Lock | None = getattr(_local, "lane", None)
    _local.lane = None
    if lane is not None:
        lane.release()


class Lanes:
    """Where reviews are judged. Thread-safe. `sleep` and `thread_time` are those of the time module."""

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
    def resting(self) -> Iterator[None]:
        """What is done inside may be dear: then there is a rest at its end."""
        began = self._thread_time()
        yield
        spent = self._thread_time() - began
        if spent > FREE_SECONDS and self._resting.acquire(blocking=False):
            try:
                self._sleep(max(0.0, min(spent * REST, LONGEST_REST, remaining() / 2)))
            finally:
                self._resting.release()

    @contextmanager
    def of(self, size: int) -> Iterator[bool]:
        """The lane of a body of so many bytes: large ones one at a time, while their clients wait.

        False where its turn did not come while there was time to judge it, or where too many wait for theirs.
        """
        if size <= LARGE_BYTES:
            yield True
            return
        turn = self._take_turn()
        outer = getattr(_local, "lane", None)
        _local.lane = self._large if turn else None
        try:
            yield turn
        finally:
            leave()
            _local.lane = outer

    def _take_turn(self) -> bool:
        if self._large.acquire(blocking=False):
            return True
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._large.acquire(timeout=max(0.0, min(remaining() * PATIENCE, threading.TIMEOUT_MAX)))
        finally:
            self._waiting.release()
