"""Metrics and log lines about calls of HTTP extenders; the log lines are limited in rate."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from scheduler_core.app.metrics.histograms import Histogram
from scheduler_core.logs import fields

log = logging.getLogger(__name__)

_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
# Seconds between two log lines about failures of one kind.
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
        # By kind of failure: the time of the last log line, and the number of failures since then.
        self._logged: dict[tuple[str, str, str], tuple[float, int]] = {}

    def called(self, extender: str, verb: str, seconds: float) -> None:
        """Record a call."""
        self._seconds.of(extender, verb).observe(seconds)

    def failed(self, extender: str, verb: str, reason: str, problem: str, ignored: str = "") -> None:
        """Record a call without a usable answer; `ignored` is the reason why the failure is ignored."""
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
