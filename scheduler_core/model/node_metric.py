"""NodeMetric, typed: the measured use of a node (slo.koordinator.sh/v1alpha1, docs/load-aware.md)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import NODE_METRICS
from scheduler_core.model.meta import ApiObject, ClusterObject, Raw, parse
from scheduler_core.model.quantity import parse_resource
from scheduler_core.model.timestamps import epoch

DEFAULT_REPORT_INTERVAL: Final = 60
# 2 PiB, or two billion cores: larger amounts count as this much, so that sums never overflow.
MAX_AMOUNT: Final = 2**51

UNMEASURED: Final = 0
AS_OTHER: Final = 1
AS_PROD: Final = 2

_NOTHING: Final[dict[str, int]] = {}
_PROD: Final = "koord-prod"


class _UsageWire(msgspec.Struct, frozen=True, rename="camel"):
    resources: dict[str, Any] | None = None


class _AggregatedWire(msgspec.Struct, frozen=True, rename="camel"):
    duration: str = ""
    usage: dict[str, _UsageWire] | None = None


class _NodeWire(msgspec.Struct, frozen=True, rename="camel"):
    node_usage: _UsageWire | None = None
    system_usage: _UsageWire | None = None
    aggregated_node_usages: tuple[_AggregatedWire, ...] | None = None


class _PodWire(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = ""
    name: str = ""
    priority: str = ""
    pod_usage: _UsageWire | None = None


class AggregatePolicyWire(msgspec.Struct, frozen=True, rename="camel"):
    """The windows over which a node aggregates its use, as a NodeMetric and a ConfigMap write them."""

    durations: tuple[str, ...] | None = None


class _CollectPolicyWire(msgspec.Struct, frozen=True, rename="camel"):
    aggregate_duration_seconds: int | None = None
    report_interval_seconds: int | None = None
    node_aggregate_policy: AggregatePolicyWire | None = None


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    metric_collect_policy: _CollectPolicyWire | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    update_time: datetime | None = None
    node_metric: _NodeWire | None = None
    pods_metric: tuple[_PodWire, ...] | None = None


class _NodeMetricWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire | None = None
    status: _StatusWire | None = None


class MeasuredPods(msgspec.Struct, frozen=True, eq=False):
    """Measured use of P pods as columns: int64 [P] per resource, 0 where a pod says nothing of one.

    `keys` are `namespace/name`; of two entries for one pod the last counts. `bands` has a byte per pod:
    UNMEASURED where no use is given, AS_PROD where it was reported as a prod pod, else AS_OTHER.
    """

    keys: tuple[str, ...] = ()
    bands: bytes = b""
    usage: dict[str, array[int]] = msgspec.field(default_factory=dict)


class Percentiles(msgspec.Struct, frozen=True, eq=False):
    """Use per aggregation type (`p95`, ...) over one window; `duration` is the text, such as `5m0s`."""

    duration: str
    usage: dict[str, dict[str, int]]


class CollectPolicy(msgspec.Struct, frozen=True):
    """The measuring policy of the node, in seconds; None for a setting that is absent."""

    aggregate_duration: int | None = None
    report_interval: int | None = None
    durations: tuple[str, ...] = ()


class NodeMetric(ClusterObject, frozen=True, eq=False):
    """A report. Amounts are exact integers (CPU in milli), `update_time` seconds since the epoch.

    `usage` is None where the node measured nothing yet (`status.nodeMetric` is absent).
    """

    uid: str
    resource_version: str
    annotations: dict[str, str]
    policy: CollectPolicy
    update_time: float | None
    usage: dict[str, int] | None
    system: dict[str, int]
    percentiles: tuple[Percentiles, ...]
    pods: MeasuredPods

    @property
    def report_interval(self) -> int:
        """Seconds between two reports; 60 if no valid value is set."""
        interval = self.policy.report_interval
        return interval if interval is not None and interval > 0 else DEFAULT_REPORT_INTERVAL


def amounts(raw: Mapping[str, Any] | None, path: str) -> dict[str, int]:
    """Measured amounts: negative ones count as 0, absurd ones as MAX_AMOUNT.

    Raises ModelError with `path[resource]` for text that is no quantity.
    """
    if not raw:
        return _NOTHING
    try:
        return {name: _amount(name, value) for name, value in raw.items()}
    except (ModelError, TypeError):
        return {name: _amount_at(name, value, path) for name, value in raw.items()}


@lru_cache(maxsize=65536)
def _amount(resource: str, value: str | int | float) -> int:
    return min(max(parse_resource(resource, value), 0), MAX_AMOUNT)


def _amount_at(resource: str, value: object, path: str) -> int:
    """As `amounts`, for lists with a malformed entry: raises ModelError with its path."""
    try:
        return min(max(parse_resource(resource, value), 0), MAX_AMOUNT)
    except ModelError as error:
        raise ModelError(f"{path}[{resource}]", error.problem) from None


def _usage(wire: _UsageWire | None, path: str) -> dict[str, int]:
    return amounts(wire.resources, f"{path}.resources") if wire is not None else _NOTHING


def _percentiles(wires: tuple[_AggregatedWire, ...] | None) -> tuple[Percentiles, ...]:
    if not wires:
        return ()
    path = "status.nodeMetric.aggregatedNodeUsages"
    return tuple(
        Percentiles(
            wire.duration,
            {kind: _usage(usage, f"{path}[{i}].usage[{kind}]") for kind, usage in (wire.usage or {}).items()},
        )
        for i, wire in enumerate(wires)
    )


def _pods(wires: tuple[_PodWire, ...] | None) -> MeasuredPods:
    if not wires:
        return MeasuredPods()
    bands = bytearray(len(wires))
    columns: dict[str, array[int]] = {}
    for i, wire in enumerate(wires):
        usage = _usage(wire.pod_usage, f"status.podsMetric[{i}].podUsage")
        if usage:
            bands[i] = AS_PROD if wire.priority == _PROD else AS_OTHER
        for name, value in usage.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = array("q", bytes(8 * len(wires)))
            column[i] = value
    return MeasuredPods(tuple(f"{wire.namespace}/{wire.name}" for wire in wires), bytes(bands), columns)


def _policy(spec: _SpecWire | None) -> CollectPolicy:
    wire = spec.metric_collect_policy if spec is not None else None
    if wire is None:
        return CollectPolicy()
    aggregate = wire.node_aggregate_policy
    durations = (aggregate.durations or ()) if aggregate is not None else ()
    return CollectPolicy(wire.aggregate_duration_seconds, wire.report_interval_seconds, durations)


def _node_metric_from(wire: _NodeMetricWire) -> NodeMetric:
    """The typed report of a decoded object. Raises ModelError with the path of what is malformed."""
    meta, status = wire.metadata, wire.status or _StatusWire()
    node = status.node_metric
    return NodeMetric(
        name=meta.name,
        uid=meta.uid or meta.name,
        resource_version=meta.resource_version,
        annotations=meta.annotations or {},
        policy=_policy(wire.spec),
        update_time=epoch(status.update_time),
        usage=_usage(node.node_usage, "status.nodeMetric.nodeUsage") if node is not None else None,
        system=_usage(node.system_usage, "status.nodeMetric.systemUsage") if node is not None else _NOTHING,
        percentiles=_percentiles(node.aggregated_node_usages) if node is not None else (),
        pods=_pods(status.pods_metric),
    )


def parse_node_metric(raw: Raw) -> NodeMetric:
    """Read a NodeMetric from JSON bytes or a dict. Raises ModelError naming the node and the field."""
    return parse(raw, _NodeMetricWire, NODE_METRICS, _node_metric_from)
