"""The counter of what quotas used, borrowed, lent and waited for (docs/history.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler_core.app.metrics.sample import base_units

# By namespace, resource and kind, in the unit of the resource times seconds.
ResourceSeconds = dict[tuple[str, str, str], int]


class QuotaSecondsMetrics(Collector):
    """`take` asks the loop for the sums since the start of this process."""

    def __init__(self, take: Callable[[], ResourceSeconds]) -> None:
        self._take = take

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registration must not wait for the loop."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One series per quota, resource and kind."""
        family = CounterMetricFamily(
            "muster_quota_resource_seconds",
            "Use, borrowed, lent and waiting amounts of ElasticQuotas times seconds, in cores and bytes.",
            labels=("namespace", "resource", "kind"),
        )
        for (namespace, resource, kind), value in self._take().items():
            family.add_metric((namespace, resource, kind), base_units(resource, value))
        yield family
