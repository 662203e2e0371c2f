"""NodeMetrics on an API server: the reporter's own, those of an agent, and the collect policy.

The metrics API is made up (no test server serves it); NodeMetrics are real objects behind their CRD.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from scheduler_core.app.load_reporter import NODE_USAGE, LoadReporter, LoadView
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.kinds import NODE_METRICS, NODES, Resource
from scheduler_core.model.node import Node, parse_node
from scheduler_core.model.node_metric import NodeMetric, parse_node_metric
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create, Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from tests.support.clusters.cluster import Cluster


class WithMetricsApi:
    """A client of the server, with a metrics API beside it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.moment = float(int(time.time()))
        self.nodes: list[str] = []

    def list_raw(self, resource: Resource) -> Iterator[msgspec.Raw]:
        if resource == NODE_USAGE:
            for name in self.nodes:
                usage = {"cpu": "1500m", "memory": "3Gi"}
                item = {
                    "metadata": {"name": name},
                    "timestamp": format_micro_time(self.moment),
                    "usage": usage,
                }
                yield msgspec.Raw(msgspec.json.encode(item))

    def create(self, write: Create) -> bytes:
        return self.client.create(write)

    def patch(self, write: Patch) -> bytes:
        return self.client.patch(write)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    made, _ = connect(Overrides(kubeconfig=str(cluster.kubeconfig)))
    yield made
    made.session.close()


def add_node(client: Client, name: str) -> Node:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return parse_node(client.create(Create(NODES, "", body)))


def metric(client: Client, name: str) -> NodeMetric:
    return parse_node_metric(client.get(NODE_METRICS, "", name))


def reporter(api: WithMetricsApi, nodes: dict[str, Node]) -> LoadReporter:
    def view() -> LoadView:
        listed = [parse_node_metric(raw) for raw in api.client.list_raw(NODE_METRICS)]
        return LoadView(nodes, {found.name: found for found in listed}, {})

    made: Any = api
    return LoadReporter(made, view, lambda: True, lambda: api.moment)


@pytest.mark.smoke
def test_a_report_is_created_and_renewed(cluster: Cluster, client: Client) -> None:
    api = WithMetricsApi(client)
    node = add_node(client, "load-a")
    api.nodes = ["load-a"]
    own = reporter(api, {"load-a": node})
    own.turn()
    first = metric(client, "load-a")
    assert first.usage == {"cpu": 1500, "memory": 3 * 2**30}
    assert first.update_time == api.moment
    api.moment += 60
    own.turn()
    assert metric(client, "load-a").update_time == api.moment


def test_the_report_of_an_agent_stays(cluster: Cluster, client: Client) -> None:
    api = WithMetricsApi(client)
    node = add_node(client, "load-b")
    body = {
        "apiVersion": NODE_METRICS.api_version,
        "kind": NODE_METRICS.kind,
        "metadata": {"name": "load-b"},
        "spec": {},
    }
    client.create(Create(NODE_METRICS, "", body))
    before = metric(client, "load-b")
    api.nodes = ["load-b"]
    reporter(api, {"load-b": node}).turn()
    after = metric(client, "load-b")
    assert (after.resource_version, after.usage) == (before.resource_version, None)


def test_the_collect_policy_reaches_the_server(cluster: Cluster, client: Client) -> None:
    state, controller = ClusterState(), NodeMetricPolicy()
    state.put_node(add_node(client, "load-c"))
    carry_out(client, state, controller.reconcile(state, 0.0))
    assert metric(client, "load-c").report_interval == 60
    said = {
        "enable": True,
        "metricReportIntervalSeconds": 20,
        "metricAggregatePolicy": {"durations": ["5m0s"]},
    }
    meta = {"namespace": "koordinator-system", "name": "slo-controller-config"}
    raw = {"metadata": meta, "data": {"colocation-config": json.dumps(said)}}
    state.config_maps.put(parse_config_map(raw))
    carry_out(client, state, controller.reconcile(state, 1.0))
    found = metric(client, "load-c").policy
    assert (found.aggregate_duration, found.report_interval, found.durations) == (300, 20, ("5m0s",))
    assert controller.reconcile(state, 100.0) == []
    state.remove_node("load-c")
    for write in controller.reconcile(state, 200.0):
        client.write(write)
    assert list(client.list_raw(NODE_METRICS)) == []


def carry_out(client: Client, state: ClusterState, writes: list[Write]) -> None:
    """Do the writes and show the state what came of them."""
    for write in writes:
        state.put_object(parse_node_metric(client.write(write)), EventKind.NODE_METRIC)
