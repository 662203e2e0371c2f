"""Client-side rate limit of requests: a token bucket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateLimiter:
    """At most `burst` requests at once and `qps` per second over time. Thread-safe, in order of arrival."""

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

    def clone(self) -> RateLimiter:
        """Another limiter of the same rate, with its own tokens."""
        return RateLimiter(self._qps, self._burst, monotonic=self._monotonic, sleep=self._sleep)

    def wait(self) -> float:
        """Take a token; sleeps until there is one. Returns the seconds slept."""
        delay = self._reserve()
        if delay > 0:
            self._sleep(delay)
        return delay

    @property
    def half_burst(self) -> float:
        """The tokens that low-priority requests leave to others: half a bucket, at most all but one."""
        return min(self._burst / 2, self._burst - 1.0)

    def take(self, cost: float = 1.0, spare: float = 0.0) -> bool:
        """Take `cost` tokens if the bucket has them and `spare` more, which stay for others; never waits."""
        with self._lock:
            self._fill()
            if self._tokens < cost + spare:
                return False
            self._tokens -= cost
            return True

    def spend(self, cost: float) -> None:
        """Charge requests that were made elsewhere. The debt is at most one full bucket."""
        with self._lock:
            self._fill()
            self._tokens = max(-float(self._burst), self._tokens - cost)

    def delay(self, cost: float = 1.0, spare: float = 0.0) -> float:
        """Seconds until `take` may succeed."""
        with self._lock:
            self._fill()
            return max(0.0, (cost + spare - self._tokens) / self._qps)

    def _reserve(self) -> float:
        """The seconds to wait for a token. Tokens may go below zero: each waiter reserves a future token."""
        with self._lock:
            self._fill()
            self._tokens -= 1
            return max(0.0, -self._tokens / self._qps)

    def _fill(self) -> None:
        now = self._monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._updated) * self._qps)
        self._updated = now
