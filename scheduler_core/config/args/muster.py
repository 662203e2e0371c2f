"""Typed arguments of the plugins that Muster adds to those of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import field, structs

from scheduler_core.config.args.kubernetes import name_problems
from scheduler_core.config.decode import Int64, Seconds
from scheduler_core.config.problems import child, invalid, not_supported, out_of_range, required
from scheduler_core.config.schema import PluginArgs
from scheduler_core.errors import ConfigError
from scheduler_core.model.duration import format_duration
from scheduler_core.model.names import (
    AGGREGATES,
    ALL_RESOURCES,
    BORROWING_ORDERS,
    BORROWING_PREEMPTIONS,
    EVICTION_GRACE_LIMIT_SECONDS,
    FIRST_COME,
    NAMES_IN_EVENTS,
    NEVER,
    PODS_IN_EVENTS,
    TOPOLOGY_NAMESPACE,
)

GREATER: Final = "Greater"
GREATER_OR_EQUAL: Final = "GreaterOrEqual"
JSON_RESULTS: Final = "Json"
SEED_RESULTS: Final = "Seed"
RESULT_FORMATS: Final = (JSON_RESULTS, SEED_RESULTS)
AGGREGATION_TYPES: Final = ("avg", "p50", "p90", "p95", "p99")
# The filter result of a node has 64 bits: two for each resource, and two for all.
MAX_LOAD_RESOURCES: Final = 31
# A year: whoever wants no limit.
MOST_GRACE_LIMIT_SECONDS: Final = 31_536_000

_WEIGHTS: Final = {"cpu": 1, "memory": 1}
_THRESHOLDS: Final = {"cpu": 65, "memory": 95}
_FACTORS: Final = {"cpu": 85, "memory": 70}

Percents = dict[str, Int64]


class BorrowingArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`order`: who borrows first. `preemption`: whether quotas that borrow take from each other.

    `history_half_life`: seconds after which what was borrowed counts half in the order; 0: it never counts.
    """

    order: str = FIRST_COME
    preemption: str = NEVER
    history_half_life: Seconds = 0.0

    def problems(self, path: str) -> Iterator[ConfigError]:
        """What is wrong with the values."""
        for name, value, known in (
            ("order", self.order, BORROWING_ORDERS),
            ("preemption", self.preemption, BORROWING_PREEMPTIONS),
        ):
            if value not in known:
                yield not_supported(child(path, name), value, known)
        if self.history_half_life < 0:
            text = format_duration(self.history_half_life)
            yield invalid(child(path, "historyHalfLife"), text, "must not be negative")


class CapacitySchedulingArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """`cross_node_preemption`: whether victims on several nodes may make room for one pod.

    `aggregate`: which resources the sum of min limits. `borrowing`: the rules among quotas that borrow. Both
    are the same for all profiles, as is `eviction_grace_limit_seconds`: what a victim has to end at most, and
    how long others wait for a pod that ends. `names_in_events`: whether Events and conditions about
    evictions name pods of other namespaces, or their quotas alone; the same for all profiles, too.
    """

    cross_node_preemption: bool = True
    aggregate: str = ALL_RESOURCES
    borrowing: BorrowingArgs = BorrowingArgs()
    eviction_grace_limit_seconds: Int64 = EVICTION_GRACE_LIMIT_SECONDS
    names_in_events: str = PODS_IN_EVENTS

    def problems(self, path: str) -> Iterator[ConfigError]:
        if self.aggregate not in AGGREGATES:
            yield not_supported(child(path, "aggregate"), self.aggregate, AGGREGATES)
        if self.names_in_events not in NAMES_IN_EVENTS:
            yield not_supported(child(path, "namesInEvents"), self.names_in_events, NAMES_IN_EVENTS)
        yield from self.borrowing.problems(child(path, "borrowing"))
        limit = self.eviction_grace_limit_seconds
        if not 0 < limit <= MOST_GRACE_LIMIT_SECONDS:
            rule = f"must be from 1 to {MOST_GRACE_LIMIT_SECONDS}"
            yield invalid(child(path, "evictionGraceLimitSeconds"), limit, rule)


class CoschedulingArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """`gang_reservation_seconds`: how long the first gang in the queue waits before nodes are kept for it.

    `gang_reservation_limit_seconds`: how long they are kept at most; then its namespace rests for as long.
    `strict_reservation`: keep them idle, with no backfilling. `require_pod_group`: pods without a group are
    refused. `permit_waiting_time_seconds`: how long placed members wait for the rest of their gang.
    `disruption_budgets`: a PodDisruptionBudget protects every gang that runs from others who evict.
    `composite_pod_groups`: CompositePodGroups (alpha) are read, and the PodGroups below a root start with it.
    """

    require_pod_group: bool = False
    gang_reservation_seconds: Int64 = 300
    gang_reservation_limit_seconds: Int64 = 3600
    strict_reservation: bool = False
    permit_waiting_time_seconds: Int64 = 60
    disruption_budgets: bool = False
    composite_pod_groups: bool = False

    def problems(self, path: str) -> Iterator[ConfigError]:
        waits = (
            ("gangReservationSeconds", self.gang_reservation_seconds),
            ("permitWaitingTimeSeconds", self.permit_waiting_time_seconds),
        )
        for name, seconds in waits:
            yield from _seconds_problem(child(path, name), seconds, seconds)
        if self.gang_reservation_limit_seconds <= 0:
            value = self.gang_reservation_limit_seconds
            yield invalid(child(path, "gangReservationLimitSeconds"), value, "must be greater than zero")


class ClusterTopologyPlacementGroupArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """`topology_config_map_name_space`: where the ConfigMap with the tree is.

    `solver_time_budget_milliseconds`: after that the best placement found so far is used. `topology_labels`:
    node labels from the widest level down, for clusters without that ConfigMap. `solver`: who searches, by
    name; which ones there are is looked at when the scheduler starts. `results_format`: placement and ranks
    of group ConfigMaps as JSON, or in the drawn form of docs/topology.md#ranks-and-results.
    """

    topology_config_map_name_space: str = TOPOLOGY_NAMESPACE
    solver_time_budget_milliseconds: Int64 = 250
    topology_labels: tuple[str, ...] = ()
    solver: str = "exact"
    results_format: str = JSON_RESULTS

    def problems(self, path: str) -> Iterator[ConfigError]:
        if not self.topology_config_map_name_space:
            yield required(child(path, "topologyConfigMapNameSpace"), "a namespace is needed")
        if self.solver_time_budget_milliseconds <= 0:
            value = self.solver_time_budget_milliseconds
            yield invalid(child(path, "solverTimeBudgetMilliseconds"), value, "must be greater than zero")
        if self.results_format not in RESULT_FORMATS:
            yield not_supported(child(path, "resultsFormat"), self.results_format, RESULT_FORMATS)
        yield from name_problems(child(path, "topologyLabels"), self.topology_labels)


class AggregatedArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Filtering and scoring by a percentile. Durations in seconds; 0 means the longest one reported."""

    usage_thresholds: Percents = field(default_factory=dict)
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Seconds = 0.0
    score_aggregation_type: str = ""
    score_aggregated_duration: Seconds = 0.0


class LoadAwareSchedulingArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """Thresholds, factors and weights are in percent per resource; `threshold_comparison` says how a
    node's usage is held against its threshold: rounded and `Greater`, or unrounded and `GreaterOrEqual`.

    `enable_schedule_when_node_metrics_missing`: whether nodes of which nothing was ever measured pass the
    filter. `cap_estimates_at_limit`: whether a pod is never estimated beyond its limit.
    """

    node_metric_expiration_seconds: Int64 = 180
    enable_schedule_when_node_metrics_expired: bool = False
    resource_weights: Percents = field(default_factory=dict)
    dominant_resource_weight: Int64 = 0
    usage_thresholds: Percents = field(default_factory=dict)
    prod_usage_thresholds: Percents = field(default_factory=dict)
    prod_usage_include_sys: bool = False
    score_according_prod_usage: bool = False
    estimated_scaling_factors: Percents = field(default_factory=dict)
    estimated_seconds_after_pod_scheduled: Int64 | None = None
    estimated_seconds_after_initialized: Int64 | None = None
    allow_customize_estimation: bool = False
    aggregated: AggregatedArgs | None = None
    supported_resources: tuple[str, ...] = ()
    threshold_comparison: str = GREATER
    enable_schedule_when_node_metrics_missing: bool = True
    cap_estimates_at_limit: bool = True

    def filled(self) -> LoadAwareSchedulingArgs:
        weights = self.resource_weights or ({} if self.dominant_resource_weight else _WEIGHTS)
        return structs.replace(
            self,
            resource_weights=dict(weights),
            usage_thresholds=self.usage_thresholds or dict(_THRESHOLDS),
            estimated_scaling_factors=_FACTORS | self.estimated_scaling_factors,
        )

    def resources(self) -> tuple[str, ...]:
        """Every resource that shows up, cpu and memory always, in name order."""
        maps = (
            _WEIGHTS,
            self.resource_weights,
            self.usage_thresholds,
            self.prod_usage_thresholds,
            self.estimated_scaling_factors,
            self.aggregated.usage_thresholds if self.aggregated is not None else {},
        )
        return tuple(sorted({*self.supported_resources, *(name for found in maps for name in found)}))

    def problems(self, path: str) -> Iterator[ConfigError]:
        count = len(self.resources())
        if count > MAX_LOAD_RESOURCES:
            yield invalid(path, count, f"must not name more than {MAX_LOAD_RESOURCES} resources")
        if self.node_metric_expiration_seconds <= 0:
            value = self.node_metric_expiration_seconds
            yield invalid(child(path, "nodeMetricExpirationSeconds"), value, "should be a positive value")
        yield from _range_problems(child(path, "resourceWeights"), self.resource_weights, 1)
        dominant = self.dominant_resource_weight
        yield from out_of_range(child(path, "dominantResourceWeight"), dominant, 0, 100)
        yield from _range_problems(child(path, "usageThresholds"), self.usage_thresholds, 0)
        yield from self._prod_problems(child(path, "prodUsageThresholds"))
        yield from _range_problems(child(path, "estimatedScalingFactors"), self.estimated_scaling_factors, 1)
        yield from self._factor_problems(child(path, "estimatedScalingFactors"))
        yield from self._seconds_problems(path)
        if self.aggregated is not None:
            yield from _aggregated_problems(child(path, "aggregated"), self.aggregated)
        comparisons = (GREATER, GREATER_OR_EQUAL)
        if self.threshold_comparison not in comparisons:
            place = child(path, "thresholdComparison")
            yield not_supported(place, self.threshold_comparison, comparisons)

    def _prod_problems(self, path: str) -> Iterator[ConfigError]:
        """Beyond 100 is allowed: a node may use more than what its annotation calls its capacity."""
        for resource, value in self.prod_usage_thresholds.items():
            if value < 0:
                yield invalid(child(path, resource), value, "must be non-negative")

    def _seconds_problems(self, path: str) -> Iterator[ConfigError]:
        forced = (
            ("estimatedSecondsAfterPodScheduled", self.estimated_seconds_after_pod_scheduled),
            ("estimatedSecondsAfterInitialized", self.estimated_seconds_after_initialized),
        )
        for name, seconds in forced:
            yield from _seconds_problem(child(path, name), seconds or 0, seconds)

    def _factor_problems(self, path: str) -> Iterator[ConfigError]:
        for resource in self.resource_weights:
            if resource not in self.estimated_scaling_factors:
                yield required(child(path, resource), "every weighted resource needs a scaling factor")


def _seconds_problem(path: str, seconds: float, shown: Any) -> Iterator[ConfigError]:
    if seconds < 0:
        yield invalid(path, shown, "must be non-negative")


def _aggregated_problems(path: str, aggregated: AggregatedArgs) -> Iterator[ConfigError]:
    yield from _range_problems(child(path, "usageThresholds"), aggregated.usage_thresholds, 0)
    named = (
        ("usageAggregationType", aggregated.usage_aggregation_type),
        ("scoreAggregationType", aggregated.score_aggregation_type),
    )
    for name, value in named:
        if value and value not in AGGREGATION_TYPES:
            yield not_supported(child(path, name), value, AGGREGATION_TYPES)
    windows = (
        ("usageAggregatedDuration", aggregated.usage_aggregated_duration),
        ("scoreAggregatedDuration", aggregated.score_aggregated_duration),
    )
    for name, seconds in windows:
        yield from _seconds_problem(child(path, name), seconds, format_duration(seconds))


def _range_problems(path: str, values: Mapping[str, int], low: int) -> Iterator[ConfigError]:
    for resource, value in values.items():
        yield from out_of_range(child(path, resource), value, low, 100)
