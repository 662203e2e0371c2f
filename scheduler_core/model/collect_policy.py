"""Reads the measuring policy of nodes: `colocation-config` (JSON) of the ConfigMap `slo-controller-config`.

It has a cluster-wide strategy, and entries per node selector. The first entry that matches a node overlays
the cluster-wide strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.model.duration import parse_duration
from scheduler_core.model.names import COLOCATION_CONFIG_KEY
from scheduler_core.model.node_metric import DEFAULT_REPORT_INTERVAL, AggregatePolicyWire, CollectPolicy
from scheduler_core.model.selectors import LabelSelectorWire, Selector, parse_selector

W = TypeVar("W")

DEFAULT_AGGREGATE_DURATION: Final = 300
DEFAULT_POLICY: Final = CollectPolicy(DEFAULT_AGGREGATE_DURATION, DEFAULT_REPORT_INTERVAL)


class _StrategyWire(msgspec.Struct, frozen=True, rename="camel"):
    enable: bool | None = None
    metric_aggregate_duration_seconds: int | None = None
    metric_report_interval_seconds: int | None = None
    metric_aggregate_policy: AggregatePolicyWire | None = None


class _ConfigWire(_StrategyWire, frozen=True, rename="camel"):
    node_configs: tuple[msgspec.Raw, ...] | None = None


class _SelectorWire(msgspec.Struct, frozen=True, rename="camel"):
    node_selector: LabelSelectorWire | None = None


class CollectStrategy(msgspec.Struct, frozen=True):
    """The settings of one entry; None for a setting that is absent. Times are in seconds."""

    enable: bool | None = None
    aggregate_duration: int | None = None
    report_interval: int | None = None
    durations: tuple[str, ...] | None = None

    def over(self, base: CollectStrategy) -> CollectStrategy:
        """This entry laid over another."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(base, **said)


class CollectConfig(msgspec.Struct, frozen=True):
    """The cluster-wide strategy, and the strategies for selected nodes in order.

    An entry that cannot be used is treated as empty, so the cluster-wide values apply to its nodes.
    `problems` describes such entries and values, each with its path.
    """

    cluster: CollectStrategy = CollectStrategy()
    nodes: tuple[tuple[Selector, CollectStrategy], ...] = ()
    problems: tuple[str, ...] = ()

    def policy_for(self, labels: Mapping[str, str]) -> CollectPolicy:
        """The policy of a node: the defaults (300 s, 60 s) if its strategy is not enabled or not valid."""
        found = self.cluster
        for selector, strategy in self.nodes:
            if selector.matches(labels):
                found = strategy.over(self.cluster)
                break
        duration = (
            DEFAULT_AGGREGATE_DURATION if found.aggregate_duration is None else found.aggregate_duration
        )
        interval = DEFAULT_REPORT_INTERVAL if found.report_interval is None else found.report_interval
        if not found.enable or duration <= 0 or interval <= 0:
            return DEFAULT_POLICY
        return CollectPolicy(duration, interval, found.durations or ())


def parse_collect_config(data: Mapping[str, str]) -> CollectConfig:
    """Read the data of the ConfigMap. Raises ModelError with the path of the malformed or missing field.

    A faulty entry of `nodeConfigs` is left out; the others apply.
    """
    path = f"data[{COLOCATION_CONFIG_KEY}]"
    text = data.get(COLOCATION_CONFIG_KEY)
    if text is None:
        raise ModelError(path, "is required")
    wire = _decoded(text, _ConfigWire, path)
    cluster = _strategy(wire, path)
    problems = [f"{fault}; 300 and 60 seconds hold" for fault in _faults(cluster, path)]
    nodes = []
    for i, raw in enumerate(wire.node_configs or ()):
        place = f"{path}.nodeConfigs[{i}]"
        try:
            selecting = _decoded(bytes(raw), _SelectorWire, place).node_selector
            selector = parse_selector(selecting, f"{place}.nodeSelector")
        except ModelError as error:
            problems.append(f"{error}; this entry is left out")
            continue
        entry = _read_entry(bytes(raw), place)
        if isinstance(entry, ModelError):
            problems.append(f"{entry}; the cluster's values hold instead of this entry")
            entry = CollectStrategy()
        nodes.append((selector, entry))
    return CollectConfig(cluster, tuple(nodes), tuple(problems))


def _read_entry(raw: bytes, path: str) -> CollectStrategy | ModelError:
    """An entry of `nodeConfigs`, or the first thing that is wrong with it."""
    try:
        entry = _strategy(_decoded(raw, _StrategyWire, path), path)
    except ModelError as error:
        return error
    return next(_faults(entry, path), entry)


def _decoded(text: str | bytes, wire: type[W], path: str) -> W:
    try:
        return decode(text, wire)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        problem, _, field = str(error).partition(" - at `$")
        raise ModelError(path + field.rstrip("`"), problem) from None


def _faults(strategy: CollectStrategy, path: str) -> Iterator[ModelError]:
    """One error for each time that is not positive."""
    times = (
        ("metricAggregateDurationSeconds", strategy.aggregate_duration),
        ("metricReportIntervalSeconds", strategy.report_interval),
    )
    for name, seconds in times:
        if seconds is not None and seconds <= 0:
            yield ModelError(f"{path}.{name}", f"{seconds} must be more than 0")


def _strategy(wire: _StrategyWire, path: str) -> CollectStrategy:
    """Raises ModelError for a percentile window that is not a positive duration."""
    aggregate = wire.metric_aggregate_policy
    for i, text in enumerate((aggregate.durations if aggregate is not None else None) or ()):
        seconds = parse_duration(text)
        if seconds is None or seconds <= 0:
            place = f"{path}.metricAggregatePolicy.durations[{i}]"
            raise ModelError(place, f"{text!r} must be a duration of more than 0s, such as 5m")
    return CollectStrategy(
        wire.enable,
        wire.metric_aggregate_duration_seconds,
        wire.metric_report_interval_seconds,
        aggregate.durations if aggregate is not None else None,
    )
