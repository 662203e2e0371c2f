"""Gangs: many small ones, a big one, and one that does not fit."""

from __future__ import annotations

import time

from benchmarks.engine_clusters import add_gang, scheduler
from benchmarks.row import Row
from scheduler_core.engine.decisions import Placed
from scheduler_core.engine.scheduler import Scheduler


def decide(made: Scheduler, expected: int) -> float:
    """Seconds of CPU to decide what waits; exactly that many pods must be placed."""
    started = time.process_time()
    decisions = made.step(2.0)
    seconds = time.process_time() - started
    placed = sum(isinstance(decision, Placed) for decision in decisions)
    if placed != expected:
        raise RuntimeError(f"{placed} pods placed, expected {expected}")
    return seconds


def main() -> list[Row]:
    """Engine time alone; ceilings leave a factor for a busy machine."""
    many = scheduler(1_000, cpu=10)
    for i in range(100):
        add_gang(many, f"g{i:03d}", 30, "1")
    small = decide(many, 3_000)
    wide = scheduler(5_000, cpu=10)
    add_gang(wide, "big", 512, "1")
    big = decide(wide, 512)
    crowded = scheduler(1_000, cpu=10)
    add_gang(crowded, "fits", 500, "6")
    decide(crowded, 500)
    add_gang(crowded, "too-big", 600, "6")
    refused = decide(crowded, 0)
    return [
        Row("100 gangs of 30, 1,000 nodes", small, "s CPU", ceiling=1.5),
        Row("one gang of 512, 5,000 nodes", big * 1e3, "ms CPU", ceiling=150.0),
        Row("a gang that does not fit, 1,000 nodes", refused * 1e3, "ms CPU", ceiling=30.0),
    ]
