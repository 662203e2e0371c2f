"""Placement of groups on a topology: the solver by cluster size and constraints, and whole scheduling steps.

Figures are CPU time. `python -m benchmarks.bench_topology [repeats]` prints all sizes and constraint mixes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.support.row import Row
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.simulate.scenario import load_scenarios
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.constraints import LevelRule, Rules
from scheduler_core.topology.placer import GroupPlacement, place
from scheduler_core.topology.tree import Tree, build

LOAD = 0.4
SLOTS_PER_NODE = 8
# The scheduler's own budget for one search.
BUDGET_MS = 250.0
REPEATS = 5
# Of so many runs on one load the fastest counts: what else the machine does is no matter of the solver.
TRIES = 2

CONFIG = """
name: groups
config:
  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles:
  - schedulerName: muster-scheduler
    plugins: {multiPoint: {enabled: [{name: ClusterTopologyPlacementGroup}]}}
objects: []
steps: [{}]
"""


@dataclass(frozen=True)
class Shape:
    """A cluster and a group: children per unit from the top, pods, and the maximum median in ms."""

    name: str
    fanout: tuple[int, ...]
    pods: int
    ceiling: float


SHAPES = (
    Shape("128 nodes, 64 pods", (8, 16), 64, 5.0),
    Shape("1,000 nodes, 512 pods", (40, 25), 512, 30.0),
    Shape("2,880 nodes, 1,200 pods, 5 levels", (4, 5, 6, 4, 6), 1200, 250.0),
    Shape("8,192 nodes, 512 pods", (256, 32), 512, 150.0),
    Shape("8,192 nodes, 512 pods, 3 levels", (8, 32, 32), 512, 200.0),
    Shape("8,192 nodes, 512 pods, flat", (8192,), 512, 50.0),
    Shape("50,000 nodes, 1,024 pods", (1000, 50), 1024, 1000.0),
)

# Rules of the last two levels; levels above pack.
MIXES: dict[str, tuple[LevelRule, LevelRule]] = {
    "pack / pack": (LevelRule("a"), LevelRule("b")),
    "pack / spread": (LevelRule("a"), LevelRule("b", spread=True)),
    "spread / pack": (LevelRule("a", spread=True), LevelRule("b")),
    "spread / spread": (LevelRule("a", spread=True), LevelRule("b", spread=True)),
    "2 partitions / pack": (LevelRule("a", spread=True, partitions=2), LevelRule("b")),
    "8 partitions / spread": (LevelRule("a", spread=True, partitions=8), LevelRule("b", spread=True)),
    "pack / spread 2..4": (LevelRule("a"), LevelRule("b", spread=True, min=2, max=4)),
    "pack / factor 4": (LevelRule("a"), LevelRule("b", factor=4)),
    "factor 4 / pack": (LevelRule("a", factor=4), LevelRule("b")),
    "spread / pack 3..4": (LevelRule("a", spread=True), LevelRule("b", min=3, max=4)),
    "hard pack / spread": (LevelRule("a", hard=True), LevelRule("b", spread=True)),
}


def cluster(fanout: tuple[int, ...]) -> Tree:
    """A regular tree with a given number of children per unit at each level."""
    paths: list[tuple[str, ...]] = [()]
    for width in fanout:
        paths = [(*path, f"{path[-1] if path else 'u'}-{i}") for path in paths for i in range(width)]
    return build([f"level-{depth}" for depth in range(len(fanout))], paths)


def rules_for(tree: Tree, mix: tuple[LevelRule, LevelRule]) -> Rules:
    """The constraint mix on the lowest levels, and pack above."""
    names = tree.levels
    above = tuple(LevelRule(name) for name in names[:-2])
    return above + mix[-min(2, len(names)) :]


class Solved:
    """Median and maximum CPU milliseconds of the solver for a shape under one mix, over several loads."""

    def __init__(self, tree: Tree, shape: Shape, rules: Rules, repeats: int) -> None:
        rng = np.random.default_rng(1)
        times: list[float] = []
        self.proven = True
        for _ in range(repeats):
            capacity = rng.binomial(SLOTS_PER_NODE, 1 - LOAD, len(tree.leaves))
            tries: list[float] = []
            for _ in range(TRIES):
                started = time.process_time()
                found = place(tree, capacity, shape.pods, rules)
                tries.append((time.process_time() - started) * 1000)
            times.append(min(tries))
            self.proven &= not isinstance(found, GroupPlacement) or found.optimal
        self.outcome = str(found.values) if isinstance(found, GroupPlacement) else "infeasible"
        self.median, self.longest = statistics.median(times), max(times)


def solved(repeats: int, shapes: Sequence[Shape] = SHAPES) -> Iterator[tuple[Shape, str, Solved]]:
    """The results for all shapes and mixes."""
    for shape in shapes:
        tree = cluster(shape.fanout)
        for name, mix in MIXES.items():
            yield shape, name, Solved(tree, shape, rules_for(tree, mix), repeats)


def group_milliseconds(nodes: int, size: int, repeats: int = REPEATS) -> float:
    """CPU time of the step that places one group: filters, search, checks, Reserve, ranks."""
    (scenario,) = load_scenarios(CONFIG)
    profiles = build_profiles(scenario.config, FACTORIES, KNOWN_PLUGINS)
    scheduler = Scheduler(ClusterState(), profiles, clock=time.monotonic)
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    racks: dict[str, dict[str, object]] = {}
    for index in range(nodes):
        name = f"node-{index}"
        scheduler.put(parse_node({"metadata": {"name": name}, "status": {"allocatable": room}}), 0.0)
        racks.setdefault(f"rack-{index // 25}", {})[name] = {}
    data = {"level-names": '["rack", "node"]', "tree": json.dumps(racks)}
    _put_config_map(scheduler, "tree", "default", "sakkara.topology", data)
    times = []
    for turn in range(repeats + 1):
        _put_group(scheduler, f"g-{turn}", size)
        started = time.process_time()
        decisions = scheduler.step(float(turn))
        times.append((time.process_time() - started) * 1000)
        assert sum(isinstance(decision, Placed) for decision in decisions) == size
    return statistics.median(times[1:])


def _put_config_map(
    scheduler: Scheduler, name: str, namespace: str, label: str, data: dict[str, str]
) -> None:
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": {label: ""}}
    scheduler.put(parse_config_map({"metadata": meta, "data": data}), 0.0)


def _put_group(scheduler: Scheduler, name: str, size: int) -> None:
    constraints = '{"rack": {"type": "pack"}, "node": {"type": "spread"}}'
    data = {"name": name, "size": str(size), "constraints": constraints}
    _put_config_map(scheduler, name, "a", "sakkara.group", data)
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"schedulerName": "muster-scheduler", "containers": [container]}
    for index in range(size):
        meta = {"name": f"{name}-{index}", "namespace": "a", "labels": {"sakkara.group.name": name}}
        meta["uid"] = meta["name"]
        scheduler.put(parse_pod({"metadata": meta, "spec": spec}), 0.0)


def main(small: bool = False) -> list[Row]:
    """Slowest mix of each size, share of searches that prove the optimum in the budget, and whole groups."""
    shapes, repeats = (SHAPES[:1], 1) if small else (SHAPES, REPEATS)
    groups = ((64, 100, 40.0),) if small else ((64, 1000, 40.0), (512, 1000, 150.0), (512, 5000, 200.0))
    found = list(solved(repeats, shapes))
    rows = []
    for shape in shapes:
        slowest = max((result for of, _, result in found if of is shape), key=lambda result: result.median)
        name = f"solver, {shape.name}, slowest of {len(MIXES)} mixes"
        rows.append(Row(name, slowest.median, "ms CPU", ceiling=shape.ceiling))
    in_time = [
        result.proven and result.longest <= BUDGET_MS for of, _, result in found if of is not SHAPES[-1]
    ]
    share = 100 * sum(in_time) / len(in_time)
    rows.append(Row("proven best within 250 ms, up to 8,192 nodes", share, "%", floor=95))
    for size, nodes, ceiling in groups:
        spent = group_milliseconds(nodes, size, repeats)
        rows.append(Row(f"whole group of {size}, {nodes:,} nodes", spent, "ms CPU", ceiling=ceiling))
    return rows


if __name__ == "__main__":
    print("| cluster, group | rules of the two lowest levels | median, ms CPU | longest | per level |")
    print("|---|---|---|---|---|")
    for shape, mix, result in solved(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS):
        times = f"{result.median:.2f} | {result.longest:.2f}"
        print(f"| {shape.name} | {mix} | {times} | {result.outcome} |", flush=True)
