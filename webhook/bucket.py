"""A token bucket: so many at once, so many a second from then on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Bucket:
    """Thread-safe. `rate` tokens come back a second, up to `burst`."""

    def __init__(self, rate: float, burst: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._tokens = burst
        self._since = monotonic()

    def take(self) -> bool:
        """Take one token; False where there is none."""
        with self._lock:
            now = self._monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._since) * self._rate)
            self._since = now
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True
