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
    """The longest answer of the last seconds. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._longest = 0.0
        self._since = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the request in the block, whether it succeeds or fails."""
        began = self._monotonic()
        try:
            yield
        finally:
            now = self._monotonic()
            with self._lock:
                if now - began >= self._longest or now - self._since > WINDOW_SECONDS:
                    self._longest, self._since = now - began, now

    def delay(self) -> float:
        """The seconds that an object may appear later than on a server that answers at once."""
        with self._lock:
            fresh = self._monotonic() - self._since <= WINDOW_SECONDS
            return min(FACTOR * self._longest, MOST_SECONDS) if fresh else 0.0
