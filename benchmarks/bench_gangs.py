"""Placement of gangs: many small gangs, a large gang in two dialects, and a gang that does not fit."""

from __future__ import annotations

import time

from benchmarks.support.engine_clusters import add_gang, add_native_gang, scheduler
from benchmarks.support.row import Row
from scheduler_core.engine.decisions import Placed
from scheduler_core.engine.scheduler import Scheduler


def decide(made: Scheduler, expected: int) -> float:
    """CPU seconds to decide all pending pods; exactly `expected` pods must be placed."""
    started = time.process_time()
    decisions = made.step(2.0)
    seconds = time.process_time() - started
    placed = sum(isinstance(decision, Placed) for decision in decisions)
    if placed != expected:
        raise RuntimeError(f"{placed} pods placed, expected {expected}")
    return seconds


def main(small: bool = False) -> list[Row]:
    """Time of the engine only; the ceilings allow for a busy machine."""
    part = 50 if small else 1
    nodes, more, gangs, members = 1_000 // part, 5_000 // part, 100 // part, 512 // part
    many = scheduler(nodes, cpu=10)
    for i in range(gangs):
        add_gang(many, f"g{i:03d}", 30, "1")
    each = decide(many, gangs * 30)
    wide = scheduler(more, cpu=10)
    add_gang(wide, "big", members, "1")
    big = decide(wide, members)
    native = scheduler(more, cpu=10)
    add_native_gang(native, "own", members, "1")
    own = decide(native, members)
    crowded = scheduler(nodes, cpu=10)
    add_gang(crowded, "fits", nodes // 2, "6")
    decide(crowded, nodes // 2)
    add_gang(crowded, "too-big", nodes // 2 + nodes // 10, "6")
    refused = decide(crowded, 0)
    return [
        Row(f"{gangs} gangs of 30, {nodes:,} nodes", each, "s CPU", ceiling=1.5),
        Row(f"one gang of {members}, {more:,} nodes", big * 1e3, "ms CPU", ceiling=150.0),
        Row(f"one native gang of {members}, {more:,} nodes", own * 1e3, "ms CPU", ceiling=60.0),
        Row(f"a gang that does not fit, {nodes:,} nodes", refused * 1e3, "ms CPU", ceiling=30.0),
    ]
