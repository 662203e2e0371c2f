"""A replay of two weeks of jobs on 384 GPUs: CPU time, and what lending and fair sharing do to waits.

The trace is generated, with the figures of Philly's (docs/replay.md#a-trace-to-try).
"""

from __future__ import annotations

import time

from benchmarks.support.row import Row
from sandbox.replay.generator import generate
from sandbox.replay.policies import POLICIES, proportional
from sandbox.replay.report import PolicyFigures, figures_of
from sandbox.replay.virtual_cluster import ClusterShape, VirtualCluster

SEED = 1


def main(small: bool = False) -> list[Row]:
    """Rows per policy, and the ratios between policies."""
    jobs = generate(SEED, 300 if small else 25_000, days=1 if small else 15, load=40 if small else 295)
    shape = ClusterShape(6 if small else 48, 8)
    quotas = proportional(jobs, shape.gpus)
    rows: list[Row] = []
    found: dict[str, PolicyFigures] = {}
    for name in ("fixed", "lend") if not small else POLICIES:
        began = time.process_time()
        outcome = VirtualCluster(shape, quotas, POLICIES[name]).run(jobs)
        spent = time.process_time() - began
        found[name] = figures_of(name, outcome, shape.gpus)
        rows.append(Row(f"{len(jobs):,} jobs, {name}", spent, "s CPU"))
    fixed, lent = found["fixed"].whole, found["lend"].whole
    ratio = fixed.waits.mean / lent.waits.mean if lent.waits.mean else float("inf")
    rows.append(Row("mean wait, fixed of lend", ratio, "ratio", floor=None if small else 8.0))
    rows.append(Row("work lost by lend", lent.lost_percent, "%", ceiling=None if small else 0.5))
    return rows
