"""What calls of HTTP extenders take and how they fail: metrics, and log lines without a flood."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from scheduler_core.app.histograms import Histogram
from scheduler_core.logs import fields

log = logging.getLogger(__name__)

_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
# Between two lines about failures of one kind.
_QUIET_SECONDS: Final = 10.0


class ExtenderMetrics:
    """For any thread. An extender is named by its URL."""

    def __init__(self, registry: CollectorRegistry, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = Histogram(
            ("muster_extender_duration_seconds",),
            "Calls of HTTP extenders, failed ones included.",
            _SECONDS,
            ("extender", "verb"),
        )
        registry.register(self._seconds)
        self._errors = Counter(
            "muster_extender_errors",
            "Calls of HTTP extenders without a usable answer, by reason.",
            ("extender", "verb", "reason"),
            registry=registry,
        )
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # When a kind of failure was logged last, and how many were not since then.
        self._logged: dict[tuple[str, str, str], tuple[float, int]] = {}

    def called(self, extender: str, verb: str, seconds: float) -> None:
        """A call has ended."""
        self._seconds.of(extender, verb).observe(seconds)

    def failed(self, extender: str, verb: str, reason: str, problem: str, ignored: str = "") -> None:
        """A call gave no usable answer; `ignored` says why that stops nobody."""
        self._errors.labels(extender, verb, reason).inc()
        kind, now = (extender, verb, reason), self._monotonic()
        with self._lock:
            at, quiet = self._logged.get(kind, (now - _QUIET_SECONDS, 0))
            if now - at < _QUIET_SECONDS:
                self._logged[kind] = (at, quiet + 1)
                return
            self._logged[kind] = (now, 0)
        more = {"more": quiet} if quiet else {}
        log.warning("extender: %s", problem, extra=fields(verb=verb, reason=reason, ignored=ignored, **more))
