"""PodTopologySpread and InterPodAffinity with 5,000 nodes and 50,000 pods: cost per attempt, decisions/s.

Run as `python -m benchmarks.bench_cluster_plugins`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.row import Row
from scheduler_core.config import default_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.registry import build_profiles
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.plugins.inter_pod_affinity import InterPodAffinity
from scheduler_core.plugins.pod_topology_spread import PodTopologySpread
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState

ZONES = 10
US_PER_ATTEMPT = 250
US_AT_FIRST_SIGHT = 500
DECISIONS_PER_SECOND = 1_500
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

Spec = dict[str, Any]


class Size(NamedTuple):
    """Size of the cluster, and number of timed decisions."""

    nodes: int
    pods: int
    apps: int
    decisions: int


FULL, SMALL = Size(5_000, 50_000, 500, 1_000), Size(100, 500, 50, 20)


def _spread(app: str, action: str) -> Spec:
    selector = {"matchLabels": {"app": app}}
    return {
        "topologySpreadConstraints": [
            {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector}
            for key, skew in ((ZONE, 1), (HOST, 2))
        ]
    }


def _terms(app: str, kind: str, key: str, weight: int = 0) -> Spec:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    if not weight:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    weighted = [{"weight": weight, "podAffinityTerm": term}]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}


WORKLOADS: dict[str, Callable[[str], Spec]] = {
    "hard spread": lambda app: _spread(app, "DoNotSchedule"),
    "soft spread": lambda app: _spread(app, "ScheduleAnyway"),
    "required anti-affinity": lambda app: _terms(app, "podAntiAffinity", HOST),
    "required affinity": lambda app: _terms(app, "podAffinity", ZONE),
    "preferred anti-affinity": lambda app: _terms(app, "podAntiAffinity", HOST, 10),
    "preferred affinity": lambda app: _terms(app, "podAffinity", ZONE, 10),
}


def make_pod(number: int, app: str, spec: Spec) -> Pod:
    """A pod with small requests and an app label."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}}]
    meta = {"name": f"p{number}", "namespace": "default", "uid": f"u{number}", "labels": {"app": app}}
    return parse_pod({"metadata": meta, "spec": {"containers": containers, **spec}})


def make_cluster(workload: Callable[[str], Spec], size: Size) -> ClusterState:
    """Nodes in zones, and placed pods of the workload, the pods of an app on different nodes."""
    state = ClusterState()
    for number in range(size.nodes):
        name = f"node-{number}"
        labels = {HOST: name, ZONE: f"zone-{number % ZONES}"}
        status = {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}}
        state.put_node(parse_node({"metadata": {"name": name, "labels": labels}, "status": status}))
    for number in range(size.pods):
        app, copy = number % size.apps, number // size.apps
        name = f"app-{app}"
        state.assume(make_pod(number, name, workload(name)), (app * 13 + copy * 50) % size.nodes, 0.0)
    return state


def attempt(state: ClusterState, pod: Pod) -> int:
    """Filter and score of both plugins for one pod; returns the best feasible node."""
    cycle = Cycle(state, pod, state.vector(pod), 0.0, "default")
    nodes = NodeView.all(state.nodes)
    feasible = state.nodes.alive[: len(nodes)].copy()
    total = np.zeros(len(nodes), dtype=np.int64)
    plugins = (PodTopologySpread(), InterPodAffinity())
    for plugin in plugins:
        if plugin.pre_filter(cycle).code is not Code.SKIP:
            feasible &= plugin.filter(cycle, nodes) == 0
    for plugin in plugins:
        if plugin.pre_score(cycle, feasible).code is not Code.SKIP:
            total += plugin.normalize(cycle, plugin.score(cycle, nodes), feasible)
    return int(np.argmax(np.where(feasible, total, -1)))


def microseconds(state: ClusterState, pods: Iterator[Pod], attempts: int) -> float:
    """Median CPU time of an attempt of both plugins for one pod of each app; placements are not timed."""
    times = []
    for _ in range(attempts):
        pod = next(pods)
        started = time.process_time()
        slot = attempt(state, pod)
        times.append(time.process_time() - started)
        state.assume(pod, slot, 0.0)
    return float(np.median(times)) * 1e6


def decisions_per_second(state: ClusterState, pods: Iterator[Pod], decisions: int) -> float:
    """Scheduling cycles per CPU second with the default plugins, Reserve included."""
    profile = default_profile()
    cycles = PodCycle(state)
    waiting = [next(pods) for _ in range(decisions)]
    started = time.process_time()
    for pod in waiting:
        found = cycles.attempt(profile, pod, 0.0)
        if found.slot < 0 or not isinstance(cycles.reserve(profile, found), ReservedPod):
            raise RuntimeError(f"pod {pod.key} found no node: {found.diagnosis}")
    return decisions / (time.process_time() - started)


def default_profile() -> Profile:
    """The default plugins."""
    profiles = build_profiles(default_config(), FACTORIES, KNOWN_PLUGINS)
    return next(iter(profiles.values()))


def main(small: bool = False) -> list[Row]:
    """Three rows per workload: first attempt with a new selector, later attempt, whole cycle."""
    size = SMALL if small else FULL
    rows = []
    for name, workload in WORKLOADS.items():
        state = make_cluster(workload, size)
        apps = [f"app-{number % size.apps}" for number in range(10 * size.pods)]
        pods = (make_pod(n, apps[n], workload(apps[n])) for n in range(size.pods, 10 * size.pods))
        first, later = (microseconds(state, pods, size.apps) for _ in range(2))
        rate = decisions_per_second(state, pods, size.decisions)
        rows += [
            Row(f"{name}, first attempt", first, "us CPU", ceiling=US_AT_FIRST_SIGHT),
            Row(f"{name}, attempt", later, "us CPU", ceiling=US_PER_ATTEMPT),
            Row(f"{name}, decisions", rate, "1/s", floor=DECISIONS_PER_SECOND),
        ]
    return rows


if __name__ == "__main__":
    for line in main():
        print(f"{line.name:<40} {line.value:>10,.0f} {line.unit:<6} {line.bound}")
    sys.exit()
