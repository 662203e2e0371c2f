"""How nodes are told to measure: `colocation-config` of the ConfigMap `slo-controller-config` (JSON).

A cluster-wide strategy, and entries per node selector of which the first that matches overlays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.names import COLOCATION_CONFIG_KEY
from scheduler_core.model.node_metric import DEFAULT_REPORT_INTERVAL, CollectPolicy
from scheduler_core.model.selectors import LabelSelectorWire, Selector, parse_selector

DEFAULT_AGGREGATE_DURATION: Final = 300
DEFAULT_POLICY: Final = CollectPolicy(DEFAULT_AGGREGATE_DURATION, DEFAULT_REPORT_INTERVAL)


class _AggregateWire(msgspec.Struct, frozen=True, rename="camel"):
    durations: tuple[str, ...] | None = None


class _StrategyWire(msgspec.Struct, frozen=True, rename="camel"):
    enable: bool | None = None
    metric_aggregate_duration_seconds: int | None = None
    metric_report_interval_seconds: int | None = None
    metric_aggregate_policy: _AggregateWire | None = None


class _NodeWire(_StrategyWire, frozen=True, rename="camel"):
    node_selector: LabelSelectorWire | None = None


class _ConfigWire(_StrategyWire, frozen=True, rename="camel"):
    node_configs: tuple[_NodeWire, ...] | None = None


class Strategy(msgspec.Struct, frozen=True):
    """What one entry says; None where it says nothing. Times in seconds."""

    enable: bool | None = None
    aggregate_duration: int | None = None
    report_interval: int | None = None
    durations: tuple[str, ...] | None = None

    def over(self, base: Strategy) -> Strategy:
        """This entry laid over another."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(base, **said)


class CollectConfig(msgspec.Struct, frozen=True):
    """The cluster's strategy, and those for selected nodes in order."""

    cluster: Strategy = Strategy()
    nodes: tuple[tuple[Selector, Strategy], ...] = ()

    def policy_for(self, labels: Mapping[str, str]) -> CollectPolicy:
        """The policy of a node; 300 s and 60 s by a strategy that is not enabled or not valid."""
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
    """Read the data of the ConfigMap. Raises ModelError with the path of what is malformed or missing."""
    path = f"data[{COLOCATION_CONFIG_KEY}]"
    text = data.get(COLOCATION_CONFIG_KEY)
    if text is None:
        raise ModelError(path, "is required")
    try:
        wire = msgspec.json.decode(text.encode(), type=_ConfigWire)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ModelError(path, str(error)) from None
    nodes = tuple(
        (parse_selector(entry.node_selector, f"{path}.nodeConfigs[{i}].nodeSelector"), _strategy(entry))
        for i, entry in enumerate(wire.node_configs or ())
    )
    return CollectConfig(_strategy(wire), nodes)


def _strategy(wire: _StrategyWire) -> Strategy:
    aggregate = wire.metric_aggregate_policy
    return Strategy(
        wire.enable,
        wire.metric_aggregate_duration_seconds,
        wire.metric_report_interval_seconds,
        aggregate.durations if aggregate is not None else None,
    )
