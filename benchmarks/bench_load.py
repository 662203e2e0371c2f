"""Load-aware scheduling at scale: filter and score, a burst of NodeMetrics, and memory of the columns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from benchmarks.support.row import Row
from scheduler_core.config.args.muster import LoadAwareSchedulingArgs
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import parse_node
from scheduler_core.model.node_metric import NodeMetric, parse_node_metric
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.plugins.load_aware import LoadAwareScheduling, load_aware
from scheduler_core.state.cluster import ClusterState

NOW = 1_767_225_600.0
NODES, PODS_PER_NODE = 5_000, 30


def pod(name: str, node: str = "") -> Pod:
    """A pod with small requests, which runs if it has a node."""
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
    }
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}
    status: dict[str, Any] = {"phase": "Running", "conditions": [scheduled]} if node else {}
    if node:
        spec["nodeName"] = node
    return parse_pod({"metadata": {"namespace": "team", "name": name}, "spec": spec, "status": status})


def report(node: int, pods: int, turn: int) -> bytes:
    """The NodeMetric of a node with its pods; the numbers depend on `turn`."""
    measured = [
        {
            "namespace": "team",
            "name": f"p-{node}-{i}",
            "priority": "koord-prod",
            "podUsage": {"resources": {"cpu": f"{(node + 7 * i + turn) % 900}m", "memory": f"{300 + i}Mi"}},
        }
        for i in range(pods)
    ]
    usage = {"resources": {"cpu": f"{5000 + (node * 37 + turn) % 20000}m", "memory": f"{20 + node % 30}Gi"}}
    return msgspec.json.encode(
        {
            "metadata": {"name": f"n-{node}"},
            "status": {
                "updateTime": "2026-01-01T00:00:00Z",
                "nodeMetric": {
                    "nodeUsage": usage,
                    "aggregatedNodeUsages": [{"duration": "5m0s", "usage": {"p95": usage}}],
                },
                "podsMetric": measured,
            },
        }
    )


def cluster(nodes: int, pods: int) -> ClusterState:
    """Nodes with running pods and no reports yet."""
    state = ClusterState()
    size = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    for n in range(nodes):
        state.put_node(parse_node({"metadata": {"name": f"n-{n}"}, "status": {"allocatable": size}}))
        for i in range(pods):
            state.put_pod(pod(f"p-{n}-{i}", f"n-{n}"), NOW)
    return state


def median_ms(action: Callable[[], object], times: int) -> float:
    """Median CPU time in milliseconds."""
    found = []
    for _ in range(times):
        began = time.process_time()
        action()
        found.append(1000 * (time.process_time() - began))
    return float(np.median(found))


def attempt_ms(plugin: LoadAwareScheduling, state: ClusterState, times: int) -> float:
    """Median time of filter and score of one pod over all nodes."""
    cycle = Cycle(state, pod("incoming"), np.zeros(4, dtype=np.int64), NOW, "bench")
    view = NodeView.all(state.nodes)

    def once() -> None:
        plugin.pre_filter(cycle)
        plugin.filter(cycle, view)
        plugin.score(cycle, view)

    once()
    return median_ms(once, times)


def absorb(plugin: LoadAwareScheduling, state: ClusterState, metrics: list[NodeMetric]) -> float:
    """CPU milliseconds to store parsed NodeMetrics of all nodes and update the columns."""
    began = time.process_time()
    for metric in metrics:
        state.load.put(metric)
    state.load.columns(plugin.spec)
    return 1000 * (time.process_time() - began)


def column_kb(plugin: LoadAwareScheduling, state: ClusterState) -> float:
    """Kilobytes of columns per node."""
    return state.load.columns(plugin.spec).nbytes / state.nodes.size / 1024


def pod_bytes(plugin: LoadAwareScheduling, state: ClusterState) -> float:
    """Bytes of estimates per assigned pod."""
    return state.load.columns(plugin.spec).pods.nbytes / max(1, len(state.placed))


def main(small: bool = False) -> list[Row]:
    """Costs on 5,000 nodes with 30 pods each."""
    nodes, pods, times = (100, 3, 5) if small else (NODES, PODS_PER_NODE, 300)
    plugin = load_aware(LoadAwareSchedulingArgs().filled())
    state = cluster(nodes, pods)
    turns = [[report(n, pods, turn) for n in range(nodes)] for turn in range(4)]
    parsed = [[parse_node_metric(raw) for raw in turn] for turn in turns]
    bursts = [absorb(plugin, state, metrics) for metrics in parsed]
    columns = state.load.columns(plugin.spec)
    every = np.arange(state.nodes.size, dtype=np.int64)
    attempt, anew = attempt_ms(plugin, state, times), median_ms(lambda: columns.derive(every), 20)
    return [
        Row(f"filter and score of one pod on {nodes:,} nodes", attempt, "ms CPU", ceiling=0.6),
        Row("all NodeMetrics replaced in one burst", float(np.median(bursts[1:])), "ms CPU", ceiling=300),
        Row("node columns of all nodes anew", anew, "ms CPU", ceiling=15),
        Row("columns per node", column_kb(plugin, state), "KiB", ceiling=2),
        Row("estimates per assigned pod", pod_bytes(plugin, state), "bytes", ceiling=200),
    ]
