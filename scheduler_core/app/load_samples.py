"""Samples of node usage, and their aggregation for reports: averages and percentiles per window."""

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
    """The windows of a report in seconds, by their text in Go's format; invalid ones are left out."""
    found = {text: parse_duration(text) for text in policy.durations or DEFAULT_WINDOWS}
    return {format_duration(seconds): seconds for seconds in found.values() if seconds and seconds > 0}


class NodeSamples:
    """Usage of one node over time, limited to the last `keep` seconds."""

    def __init__(self) -> None:
        self.times: array[float] = array("d")
        self._values: dict[str, array[int]] = {resource: array("q") for resource in _RESOURCES}

    @property
    def newest(self) -> float:
        """Time of the newest sample, minus infinity without one."""
        return self.times[-1] if self.times else float("-inf")

    def add(self, moment: float, usage: Amounts, keep: float) -> None:
        """Add a sample if it is newer than the last one; the metrics API repeats samples."""
        if moment <= self.newest:
            return
        old = bisect_left(self.times, moment - keep)
        self.times.append(moment)
        del self.times[:old]
        for resource, values in self._values.items():
            values.append(usage.get(resource, 0))
            del values[:old]

    def since(self, seconds: float) -> dict[str, list[int]]:
        """Sorted values of the last `seconds`, by resource."""
        first = bisect_left(self.times, self.newest - seconds)
        return {resource: sorted(column[first:]) for resource, column in self._values.items()}

    def covers(self, seconds: float) -> bool:
        """Whether the samples cover at least half of a window."""
        return bool(self.times) and self.newest - self.times[0] >= seconds / 2


def average(values: list[int]) -> int:
    """Mean, rounded down; 0 without values."""
    return sum(values) // len(values) if values else 0


def percentile(values: list[int], percent: int) -> int:
    """Nearest rank: the smallest of the sorted `values` that at least `percent` of them do not exceed."""
    return values[max(0, -(-percent * len(values) // 100) - 1)]


def node_status(samples: NodeSamples, policy: CollectPolicy, pods: Amounts) -> dict[str, Any]:
    """`status.nodeMetric`: average usage, percentiles per window, and usage outside of pods."""
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
    """Amounts in the format of the API."""
    return {"resources": {resource: format_resource(resource, value) for resource, value in amounts.items()}}
