"""Metrics of the watches, read from the reflectors' own counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler_core.kube.reflector import Reflector


class WatchMetrics(Collector):
    """Whether the cache is complete, how old its watches are, and why they started over."""

    def __init__(self, reflectors: Sequence[Reflector], synced: Callable[[], bool]) -> None:
        self._reflectors = reflectors
        self._synced = synced

    def describe(self) -> Iterable[Metric]:
        """Names without values."""
        return self._families()

    def collect(self) -> Iterator[Metric]:
        """One family per question."""
        synced, stale, restarts = families = self._families()
        synced.add_metric((), float(self._synced()))
        for reflector in self._reflectors:
            name = reflector.resource.plural
            stale.add_metric((name,), reflector.staleness())
            for reason, count in dict(reflector.restarts).items():
                restarts.add_metric((name, reason), count)
        yield from families

    def _families(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily, CounterMetricFamily]:
        return (
            GaugeMetricFamily("muster_cache_synced", "1 once every watched resource was listed."),
            GaugeMetricFamily(
                "muster_cache_staleness_seconds",
                "Seconds since a watch heard of the server; up to 40 on an idle one.",
                labels=("resource",),
            ),
            CounterMetricFamily(
                "muster_watch_restarts", "Watches that started over.", labels=("resource", "reason")
            ),
        )
