"""Preemption: victims on one node and on several nodes, no victims, many preemptors, growth with nodes."""

from __future__ import annotations

import statistics
import time

from benchmarks.support.engine_clusters import add_quota, pod, scheduler
from benchmarks.support.row import Row
from scheduler_core.engine.decisions import Evicted
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.quota.policy import admit

PODS_PER_NODE = 10
QUOTAS = 100
BORROWERS = 60


def full_cluster(nodes: int, cpu: int = PODS_PER_NODE) -> Scheduler:
    """Ten pods of 1 CPU per node; sixty quotas use the whole sum of min, forty wait for their min.

    With more CPUs per node only the quotas are full, and a large pod needs victims on several nodes.
    """
    made = scheduler(nodes, cpu=cpu, memory="100Gi")
    share = nodes * PODS_PER_NODE // QUOTAS
    for i in range(QUOTAS):
        add_quota(made, f"t{i}", {"cpu": share}, {"cpu": nodes * PODS_PER_NODE})
    for i in range(nodes * PODS_PER_NODE):
        where = f"n{i % nodes}"
        made.put(pod(f"t{i % BORROWERS}", f"r{i}", "1", "1Gi", nodeName=where, priority=i % 3), 1.0)
    return made


def attempt_ms(made: Scheduler, namespace: str, cpu: str, victims: int, now: float = 2.0) -> float:
    """Median CPU milliseconds of one attempt; it must find exactly `victims` victims."""
    profile = made.profiles[MUSTER_SCHEDULER]
    times = []
    for i in range(15):
        asking = pod(namespace, f"asks{i}", cpu, "1Gi")
        started = time.process_time()
        attempt = made.cycle.attempt(profile, asking, now)
        times.append(time.process_time() - started)
        found = len(attempt.post_filter.victims) if attempt.post_filter else 0
        if found != victims:
            raise RuntimeError(f"{found} victims, expected {victims}")
    return statistics.median(times) * 1e3


def pre_filter_us(made: Scheduler) -> float:
    """Microseconds of one quota check."""
    requests = {"cpu": 1000, "memory": 1 << 30}
    started = time.process_time()
    for _ in range(2_000):
        admit(made.state.ledger, "t90", requests)
    return (time.process_time() - started) / 2_000 * 1e6


def storm(made: Scheduler, count: int) -> float:
    """CPU seconds to decide preempting pods with one victim each; the state must stay consistent."""
    for i in range(count):
        made.put(pod(f"t{BORROWERS + i % (QUOTAS - BORROWERS)}", f"storm{i}", "1", "1Gi"), 3.0)
    started = time.process_time()
    decisions = made.step(4.0)
    seconds = time.process_time() - started
    evicted = sum(isinstance(decision, Evicted) for decision in decisions)
    if evicted != count or made.state.check():
        raise RuntimeError(f"{evicted} evictions for {count} pods, {made.state.check()[:1]}")
    return seconds


def main(small: bool = False) -> list[Row]:
    """Figures with 5,000 nodes and 50,000 pods, and the growth from 1,000 to 20,000 nodes."""
    nodes, least, most, crowd = (200, 100, 400, 20) if small else (5_000, 1_000, 20_000, 1_000)
    made = full_cluster(nodes)
    single, several = attempt_ms(made, "t90", "4", 4), attempt_ms(made, "t91", "10", 10)
    nobody_eligible, too_large = attempt_ms(made, "t1", "4", 0), attempt_ms(made, "t92", "11", 0)
    quota = pre_filter_us(made)
    seconds = storm(made, crowd)
    across = attempt_ms(full_cluster(nodes, cpu=2 * PODS_PER_NODE), "t90", "12", 12)
    few, many = full_cluster(least), full_cluster(most)
    growth = attempt_ms(many, "t90", "4", 4) / attempt_ms(few, "t90", "4", 4)
    return [
        Row(f"victims on one node, {nodes:,} nodes", single, "ms CPU", ceiling=15.0),
        Row("ten victims on one node", several, "ms CPU", ceiling=30.0),
        Row("twelve victims on several nodes", across, "ms CPU", ceiling=100.0),
        Row("nothing helps: nobody may go", nobody_eligible, "ms CPU", ceiling=2.0),
        Row("nothing helps: no node is large enough", too_large, "ms CPU", ceiling=2.0),
        Row("PreFilter", quota, "us CPU", ceiling=20.0),
        Row(f"storm of {crowd:,} preempting pods", seconds, "s CPU", ceiling=15.0),
        Row(f"{most:,} nodes, times the cost at {least:,}", growth, "ratio", ceiling=20.0),
    ]
