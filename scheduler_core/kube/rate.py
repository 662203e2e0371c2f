"""A token bucket that keeps our own requests under a rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateLimiter:
    """At most `burst` requests at once and `qps` per second over time; thread-safe, in order of arrival."""

    def __init__(
        self,
        qps: float,
        burst: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"qps={qps} must be positive and burst={burst} at least 1")
        self._qps = qps
        self._burst = burst
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._updated = monotonic()

    def twin(self) -> RateLimiter:
        """Another one of the same rate, with tokens of its own."""
        return RateLimiter(self._qps, self._burst, monotonic=self._monotonic, sleep=self._sleep)

    def wait(self) -> float:
        """Take a token, sleeping until there is one; returns the seconds slept."""
        delay = self._reserve()
        if delay > 0:
            self._sleep(delay)
        return delay

    def take(self) -> bool:
        """Take a token only if one is there now."""
        with self._lock:
            self._fill()
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True

    def delay(self) -> float:
        """Seconds until `take` may succeed."""
        with self._lock:
            self._fill()
            return max(0.0, (1 - self._tokens) / self._qps)

    def _reserve(self) -> float:
        """Tokens may go below zero: each waiter has reserved a place in the future."""
        with self._lock:
            self._fill()
            self._tokens -= 1
            return max(0.0, -self._tokens / self._qps)

    def _fill(self) -> None:
        now = self._monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._updated) * self._qps)
        self._updated = now
