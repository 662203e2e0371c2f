"""Solver time of the topology placer: the median over random loads, per cluster size and rule mix.

Run as `python benchmarks/bench_topology.py [repeats]`.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np

from scheduler_core.topology.constraints import LevelRule, Rules
from scheduler_core.topology.placer import Placement, place
from scheduler_core.topology.tree import Tree, build

LOAD = 0.4
SLOTS_PER_NODE = 8


@dataclass(frozen=True)
class Shape:
    """A cluster and a group: children per unit from the top, pods, and the median to reach, in ms."""

    name: str
    fanout: tuple[int, ...]
    pods: int
    target: float | None = None


SHAPES = (
    Shape("128/64", (8, 16), 64, 1.0),
    Shape("1000/512", (40, 25), 512, 10.0),
    Shape("2880/1200, 5 levels", (4, 5, 6, 4, 6), 1200, 100.0),
    Shape("8192/512", (256, 32), 512, 50.0),
    Shape("8192/512, 3 levels", (8, 32, 32), 512),
    Shape("10000/1024", (250, 40), 1024),
    Shape("50000/1024", (1000, 50), 1024),
    Shape("8192/512, flat", (8192,), 512),
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
    """A regular tree with the given number of children per unit of each level."""
    paths: list[tuple[str, ...]] = [()]
    for width in fanout:
        paths = [(*path, f"{path[-1] if path else 'u'}-{i}") for path in paths for i in range(width)]
    return build([f"level-{depth}" for depth in range(len(fanout))], paths)


def rules_for(tree: Tree, mix: tuple[LevelRule, LevelRule]) -> Rules:
    """The mix on the lowest levels, pack above."""
    names = tree.levels
    above = tuple(LevelRule(name) for name in names[:-2])
    return above + mix[-min(2, len(names)) :]


def measure(
    tree: Tree, shape: Shape, mix: tuple[LevelRule, LevelRule], repeats: int
) -> tuple[float, float, str]:
    """Median and best milliseconds of one solve after a first one, and what came out."""
    rng = np.random.default_rng(1)
    rules = rules_for(tree, mix)
    times: list[float] = []
    outcome = ""
    for _ in range(repeats + 1):
        capacity = rng.binomial(SLOTS_PER_NODE, 1 - LOAD, len(tree.leaves))
        start = time.perf_counter()
        found = place(tree, capacity, shape.pods, rules)
        times.append((time.perf_counter() - start) * 1000)
        outcome = str(found.values) if isinstance(found, Placement) else "infeasible"
    return statistics.median(times[1:]), min(times[1:]), outcome


def main() -> None:
    """Print one line per shape and mix: milliseconds, the median to reach, the objective of the last run."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"{'nodes/pods':<22}{'rules':<24}{'median ms':>10}{'best ms':>9}{'target':>8}  objective per level")
    for shape in SHAPES:
        tree = cluster(shape.fanout)
        for name, mix in MIXES.items():
            median, best, outcome = measure(tree, shape, mix, repeats)
            target = "" if shape.target is None else f"{shape.target:g}"
            print(f"{shape.name:<22}{name:<24}{median:>10.2f}{best:>9.2f}{target:>8}  {outcome}", flush=True)


if __name__ == "__main__":
    main()
