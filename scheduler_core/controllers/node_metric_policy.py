"""Maintains one NodeMetric per node, with the collect policy of the ConfigMap `slo-controller-config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from scheduler_core.model.collect_policy import DEFAULT_POLICY, CollectConfig
from scheduler_core.model.kinds import NODE_METRICS
from scheduler_core.model.names import (
    MUSTER_SCHEDULER,
    REPORTER_ANNOTATION,
    SLO_CONFIG_NAME,
    SLO_CONFIG_NAMESPACE,
)
from scheduler_core.model.node import Node
from scheduler_core.model.node_metric import CollectPolicy, NodeMetric
from scheduler_core.model.writes import Create, Delete, Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.due_times import DueTimes

# A write without a visible effect is repeated after this time.
RETRY_SECONDS: Final = 10.0


class NodeMetricPolicy:
    """Creates, corrects and deletes NodeMetrics; reviews only nodes whose labels or NodeMetric changed.

    Without `creates`, Muster's reporter creates them with their first numbers, so that no node counts as
    silent before. With `only_own`, NodeMetrics of other reporters are not changed. With `needs_config`
    nothing is written before a readable ConfigMap was seen.
    """

    def __init__(self, *, only_own: bool = False, creates: bool = True, needs_config: bool = False) -> None:
        self._only_own = only_own
        self._creates = creates
        self._needs_config = needs_config
        self._config: CollectConfig | None = None
        self._seen_nodes = -1
        self._due: DueTimes[str] = DueTimes()

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Writes that are due."""
        configured = self._config_changed(state)
        if self._needs_config and self._config is None:
            return []
        changed = self._changed_nodes(state)
        if configured:
            changed.update(node.name for node in state.nodes.nodes if node is not None)
        changed.update(state.load.take_respecified())
        for name in changed:
            self._due.put(name, now)
        writes: list[Write] = []
        for name in sorted(self._due.take(now)):
            write = self._write(state, name)
            if write is not None:
                self._due.put(name, now + RETRY_SECONDS)
                writes.append(write)
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When to check the last writes."""
        return self._due.next_time()

    def _changed_nodes(self, state: ClusterState) -> set[str]:
        log, names = state.nodes.static_changes, state.nodes.names
        slots = log.since(self._seen_nodes) if self._seen_nodes >= 0 else None
        self._seen_nodes = log.position
        if slots is None:
            return {*names, *state.load.metrics}
        return {names[slot] for slot in slots}

    def _config_changed(self, state: ClusterState) -> bool:
        """Whether there is a new readable ConfigMap. A missing or faulty one keeps the last configuration."""
        found = state.config_maps.get(f"{SLO_CONFIG_NAMESPACE}/{SLO_CONFIG_NAME}")
        if found is None or not isinstance(found.content, CollectConfig) or found.content == self._config:
            return False
        self._config = found.content
        return True

    def _write(self, state: ClusterState, name: str) -> Write | None:
        slot = state.nodes.slot(name)
        node = state.nodes.nodes[slot] if slot is not None else None
        metric = state.load.metrics.get(name)
        if metric is None:
            return self._create(node) if node is not None and self._creates else None
        if self._only_own and not ours(metric):
            return None
        if node is None:
            return Delete(NODE_METRICS, "", name, metric.uid)
        wanted = self._wanted(node, metric)
        if wanted == metric.policy:
            return None
        body = {"spec": {"metricCollectPolicy": _body(wanted)}}
        return Patch(NODE_METRICS, "", name, body, uid=metric.uid)

    def _wanted(self, node: Node, metric: NodeMetric) -> CollectPolicy:
        """The configured policy; without a configuration that of the NodeMetric, else the defaults.

        Aggregation windows that the configuration does not name stay as they are.
        """
        said = metric.policy
        if self._config is not None:
            found = self._config.policy_for(node.labels)
            return found if found.durations else structs.replace(found, durations=said.durations)
        if said.aggregate_duration is None and said.report_interval is None:
            return DEFAULT_POLICY
        return said

    def _create(self, node: Node) -> Create:
        policy = self._config.policy_for(node.labels) if self._config is not None else DEFAULT_POLICY
        return new_node_metric(node, policy, {})


def ours(metric: NodeMetric) -> bool:
    """Whether Muster reports this NodeMetric; all others belong to an agent on the node."""
    return metric.annotations.get(REPORTER_ANNOTATION) == MUSTER_SCHEDULER


def new_node_metric(node: Node, policy: CollectPolicy, annotations: Mapping[str, str]) -> Create:
    """The creation of a node's NodeMetric, with the node as owner."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    body = {
        "apiVersion": NODE_METRICS.api_version,
        "kind": NODE_METRICS.kind,
        "metadata": {"name": node.name, "ownerReferences": [owner], "annotations": dict(annotations)},
        "spec": {"metricCollectPolicy": _body(policy)},
    }
    return Create(NODE_METRICS, "", body)


def _body(policy: CollectPolicy) -> dict[str, Any]:
    body: dict[str, Any] = {
        "aggregateDurationSeconds": policy.aggregate_duration,
        "reportIntervalSeconds": policy.report_interval,
    }
    if policy.durations:
        body["nodeAggregatePolicy"] = {"durations": list(policy.durations)}
    return body
