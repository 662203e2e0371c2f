"""Decisions per second of the engine, for workloads like those of kube-scheduler's scheduler_perf."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

from benchmarks.support.engine_clusters import pod, scheduler
from benchmarks.support.row import Row
from scheduler_core.engine.decisions import Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.pods.pod import Pod

Maker = Callable[[int], Pod]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ALL_PODS = {"matchLabels": {"app": "bench"}}


def spread(action: str) -> dict[str, Any]:
    """The pods spread evenly over the zones: by filter (DoNotSchedule) or by score (ScheduleAnyway)."""
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action, "labelSelector": ALL_PODS}
    return {"topologySpreadConstraints": [rule]}


ALONE = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": HOST, "labelSelector": ALL_PODS}
            ]
        }
    }
}
PREFERS_ZONE = {
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 10,
                    "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]},
                }
            ]
        }
    }
}


def equal(spec: dict[str, Any] | None = None) -> Maker:
    """Pods of one class."""
    return lambda i: pod("a", f"p{i}", "500m", "512Mi", **(spec or {}))


def different(i: int) -> Pod:
    """Pods with pairwise different requests."""
    return pod("a", f"p{i}", f"{500 + i % 997}m", f"{512 + i // 7}Mi")


def decide(made: Scheduler, pods: list[Pod]) -> tuple[float, int]:
    """CPU seconds and number of placed pods for a queue of pending pods."""
    for item in pods:
        made.put(item, 1.0)
    started = time.process_time()
    decisions = made.step(2.0)
    seconds = time.process_time() - started
    return seconds, sum(isinstance(decision, Placed) for decision in decisions)


def rate(nodes: int, count: int, make: Maker) -> float:
    """Decisions per CPU second; all pods must be placed."""
    seconds, placed = decide(scheduler(nodes), [make(i) for i in range(count)])
    if placed != count:
        raise RuntimeError(f"{placed} of {count} pods were placed")
    return count / seconds


def unschedulable_in_the_way(nodes: int, count: int) -> float:
    """Decisions per second for pods that fit, queued behind as many unschedulable pods of higher priority."""
    made = scheduler(nodes)
    giants = [pod("a", f"giant{i}", "1000", "1Gi", priority=10) for i in range(count)]
    seconds, placed = decide(made, [*giants, *(equal()(i) for i in range(count))])
    if placed != count:
        raise RuntimeError(f"{placed} of {count} pods were placed")
    return 2 * count / seconds


def churn(nodes: int, count: int) -> float:
    """CPU microseconds per cluster event: one pod ends and another is decided, on a cluster of full size."""
    made = scheduler(nodes)
    decide(made, [equal()(i) for i in range(count)])
    running = [placement.pod for placement in made.state.placed.values()][:500]
    started = time.process_time()
    for i, item in enumerate(running):
        made.remove(item, 3.0)
        made.put(pod("a", f"new{i}", "500m", "512Mi"), 3.0)
        made.step(3.0)
    return (time.process_time() - started) / len(running) * 1e6


def load(nodes: int, count: int) -> tuple[float, float]:
    """Seconds and MiB to add a running cluster of parsed pods to the state."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    made = scheduler(nodes)
    for i in range(count):
        made.put(pod("a", f"r{i}", "100m", "128Mi", nodeName=f"n{i % nodes}"), 1.0)
    seconds = time.process_time() - started
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main(small: bool = False) -> list[Row]:
    """Rates with 500, 5,000 and 15,000 nodes; the floors allow for a busy machine."""
    part = 50 if small else 1
    few, nodes, most = 500 // part, 5_000 // part, 15_000 // part
    one, two, five, fifty = (thousands * 1_000 // part for thousands in (1, 2, 5, 50))
    seconds, mebibytes = load(nodes, fifty)
    equals = {count: rate(count, five, equal()) for count in (few, nodes, most)}
    where = f"{nodes:,} nodes"
    shaped = (
        ("all different", one, different, 1_000.0),
        ("preferred node affinity", five, equal(PREFERS_ZONE), 5_000.0),
        ("hard zone spread", two, equal(spread("DoNotSchedule")), 1_500.0),
        ("soft zone spread", two, equal(spread("ScheduleAnyway")), 1_500.0),
        ("one of them per node", two, equal(ALONE), 1_500.0),
    )
    return [
        Row(f"{fifty:,} pods on {where} taken in", seconds, "s CPU", ceiling=20.0),
        Row("memory for them", mebibytes, "MiB", ceiling=600.0),
        Row(f"equal pods, {few:,} nodes", equals[few], "1/s", floor=6_000.0),
        Row(f"equal pods, {where}", equals[nodes], "1/s", floor=6_000.0),
        Row(
            f"equal pods, {most:,} nodes, of the rate at {nodes:,}",
            equals[most] / equals[nodes],
            "ratio",
            floor=1 / 3,
        ),
        *(
            Row(f"{name}, {where}", rate(nodes, count, make), "1/s", floor=floor)
            for name, count, make, floor in shaped
        ),
        Row("unschedulable in the way", unschedulable_in_the_way(nodes, one), "1/s", floor=1_000.0),
        Row("a pod ends, another starts", churn(nodes, five), "us CPU", ceiling=2_000.0),
    ]
