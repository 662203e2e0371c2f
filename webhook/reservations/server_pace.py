"""How slowly the API server answers, and so how much later an admitted object may appear.

On a server, or a machine, that has too much to do, an object is stored long after its admission. The writes
of ledgers go the same way: they are admitted and stored by the same server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# The longest answer of this time counts.
WINDOW_SECONDS: Final = 10.0
# An object may take this many times as long as the longest answer, beside the usual time.
FACTOR: Final = 4.0
MOST_SECONDS: Final = 8.0


class ServerPace:
    """The longest answer of the last seconds about the ledger of each namespace. Thread-safe.

    Others do not count: how large a ledger is, its tenants decide, and anybody may name a namespace.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # (the longest answer, when it came) by namespace; old ones are dropped.
        self._longest: dict[str, tuple[float, float]] = {}

    @contextmanager
    def timed(self, namespace: str) -> Iterator[None]:
        """Measure the request in the block, whether it succeeds or fails."""
        began = self._monotonic()
        try:
            yield
        finally:
            now = self._monotonic()
            with self._lock:
                if now - began >= self._fresh(namespace, now):
                    self._longest.pop(namespace, None)
                    self._longest[namespace] = now - began, now
                # They are in the order of their times.
                while now - next(iter(self._longest.values()))[1] > WINDOW_SECONDS:
                    del self._longest[next(iter(self._longest))]

    def delay(self, namespace: str) -> float:
        """The seconds that an object may appear later than on a server that answers at once."""
        with self._lock:
            return min(FACTOR * self._fresh(namespace, self._monotonic()), MOST_SECONDS)

    def _fresh(self, namespace: str, now: float) -> float:
        longest, since = self._longest.get(namespace, (0.0, now))
        return longest if now - since <= WINDOW_SECONDS else 0.0
