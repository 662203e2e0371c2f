"""Samples of node use over time, and what a report says of them: averages and percentiles per window."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.model.collect_policy import DEFAULT_AGGREGATE_DURATION
from scheduler_core.model.duration import format_duration, parse_duration
from scheduler_core.model.names import CPU, MEMORY
from scheduler_core.model.node_metric import CollectPolicy
from scheduler_core.model.quantity import format_resource

DEFAULT_WINDOWS: Final = ("5m0s", "10m0s", "30m0s")
PERCENTILES: Final = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
_RESOURCES: Final = (CPU, MEMORY)

Amounts = Mapping[str, int]


def windows_of(policy: CollectPolicy) -> dict[str, float]:
    """Windows to report, by their text as Go prints it; faulty ones are left out."""
    found = {text: parse_duration(text) for text in policy.durations or DEFAULT_WINDOWS}
    return {format_duration(seconds): seconds for seconds in found.values() if seconds and seconds > 0}


class NodeSamples:
    """Use of one node over time; older samples than `keep` seconds before the newest are dropped."""

    def __init__(self) -> None:
        self.times: array[float] = array("d")
        self._values: dict[str, array[int]] = {resource: array("q") for resource in _RESOURCES}

    @property
    def newest(self) -> float:
        """Time of the newest sample, minus infinity without one."""
        return self.times[-1] if self.times else float("-inf")

    def add(self, moment: float, usage: Amounts, keep: float) -> None:
        """Take a sample in, unless it is not newer than the last: the metrics API repeats itself."""
        if moment <= self.newest:
            return
        old = bisect_left(self.times, moment - keep)
        self.times.append(moment)
        del self.times[:old]
        for resource, values in self._values.items():
            values.append(usage.get(resource, 0))
            del values[:old]

    def since(self, seconds: float) -> dict[str, list[int]]:
        """Values of the last so many seconds per resource, sorted."""
        first = bisect_left(self.times, self.newest - seconds)
        return {resource: sorted(column[first:]) for resource, column in self._values.items()}

    def covers(self, seconds: float) -> bool:
        """Whether the samples reach back over at least half of a window; less would say little of it."""
        return bool(self.times) and self.newest - self.times[0] >= seconds / 2


def average(values: list[int]) -> int:
    """Floor of the mean, 0 of nothing."""
    return sum(values) // len(values) if values else 0


def percentile(values: list[int], percent: int) -> int:
    """Nearest rank: the smallest value that at least so many percent of sorted `values` do not exceed."""
    return values[max(0, -(-percent * len(values) // 100) - 1)]


def node_status(samples: NodeSamples, policy: CollectPolicy, pods: Amounts) -> dict[str, Any]:
    """`status.nodeMetric`: average use, percentiles per window, and what is used outside of pods."""
    asked = policy.aggregate_duration
    recent = samples.since(asked if asked is not None and asked > 0 else DEFAULT_AGGREGATE_DURATION)
    usage = {resource: average(values) for resource, values in recent.items()}
    outside = {resource: max(0, value - pods.get(resource, 0)) for resource, value in usage.items()}
    aggregated = []
    for text, seconds in windows_of(policy).items():
        if samples.covers(seconds):
            values = samples.since(seconds)
            kinds = {"avg": {r: average(v) for r, v in values.items()}} | {
                kind: {r: percentile(v, percent) for r, v in values.items()}
                for kind, percent in PERCENTILES.items()
            }
            entry = {kind: resource_map(amounts) for kind, amounts in kinds.items()}
            aggregated.append({"duration": text, "usage": entry})
    return {
        "nodeUsage": resource_map(usage),
        "systemUsage": resource_map(outside),
        "aggregatedNodeUsages": aggregated,
    }


def resource_map(amounts: Amounts) -> dict[str, dict[str, str]]:
    """Amounts as the API writes them."""
    return {"resources": {resource: format_resource(resource, value) for resource, value in amounts.items()}}
