"""A clock for threads that wait: it goes on only as the test says, from one wait's end to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

# For threads that do not come back, on real time.
SECONDS = 60.0
# A condition that does not hold after so many waits never will.
MOST_WAITS = 10_000
READING = 1e-6


@dataclass(eq=False)
class Wait:
    """One thread that waits until a time; `held` keeps it there for longer, like a suspended process."""

    thread: int
    until: float
    held: Callable[[], bool]
    over: bool = False


class StagedTime:
    """The clock is the object itself. Threads `wait`, between `join` and `leave`; one at a time goes on.

    `watch` is called whenever all threads wait, before and after the clock moves.
    """

    def __init__(self, watch: Callable[[], None] = lambda: None) -> None:
        self.now = 1000.0
        self._watch = watch
        self._changed = threading.Condition()
        self._threads = 0
        self._waits: list[Wait] = []

    def __call__(self) -> float:
        # No two readings of a real clock are equal either.
        self.now += READING
        return self.now

    def join(self) -> None:
        """A thread begins."""
        with self._changed:
            self._threads += 1

    def leave(self) -> None:
        """A thread has ended."""
        with self._changed:
            self._threads -= 1
            self._changed.notify_all()

    def wait(self, seconds: float, held: Callable[[], bool] = lambda: False) -> None:
        """Of a thread: until the clock has gone on by so many seconds, or `interrupt`."""
        entry = Wait(threading.get_ident(), self.now + seconds, held)
        with self._changed:
            self._waits.append(entry)
            self._changed.notify_all()
            self._changed.wait_for(lambda: entry.over)

    def interrupt(self, thread: threading.Thread) -> None:
        """Of the test: the thread's wait ends now."""
        self._settle()
        for entry in [entry for entry in self._waits if entry.thread == thread.ident]:
            self._release(entry)

    def run_until(self, condition: Callable[[], object]) -> None:
        """Of the test: let the waits end, the earliest first, until the condition holds while all wait."""
        for _ in range(MOST_WAITS):
            self._settle()
            if condition():
                return
            with self._changed:
                entry = self._next()
            assert entry is not None, "nobody waits any more"
            self._end(entry)
        raise AssertionError(f"not true after {MOST_WAITS} waits, {self.now - 1000:g} s after the start")

    def run(self, seconds: float) -> None:
        """Of the test: let so many seconds pass."""
        end = self.now + seconds
        self._settle()
        while (entry := self._next()) is not None and entry.until <= end:
            self._end(entry)
            self._settle()
        self.now = end
        self._watch()

    def _settle(self) -> None:
        with self._changed:
            settled = self._changed.wait_for(lambda: len(self._waits) == self._threads, SECONDS)
        assert settled, f"a thread did not come back within {SECONDS:g} s"
        self._watch()

    def _next(self) -> Wait | None:
        free = [entry for entry in self._waits if not entry.held()]
        return min(free, key=lambda entry: entry.until, default=None)

    def _end(self, entry: Wait) -> None:
        self.now = max(self.now, entry.until)
        self._watch()
        self._release(entry)

    def _release(self, entry: Wait) -> None:
        with self._changed:
            self._waits.remove(entry)
            entry.over = True
            self._changed.notify_all()
