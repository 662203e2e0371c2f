"""Fair moves: what an attempt costs that takes pods from quotas that borrow more, and one that finds none."""

from __future__ import annotations

from benchmarks.bench_preemption import PODS_PER_NODE, attempt_ms
from benchmarks.support.engine_clusters import add_quota, pod, scheduler
from benchmarks.support.row import Row
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.names import FAIR_SHARE
from scheduler_core.model.quotas.borrowing import Borrowing

BORROWERS = 60
OTHERS = 40
# After this time all pods have run for as long as fair moves ask for.
LATER = 10_000.0


def borrowed_cluster(nodes: int) -> Scheduler:
    """Ten pods of 1 CPU per node; sixty quotas without min borrow all that forty idle quotas are guaranteed.

    The last of the idle quotas guarantees nothing: its work borrows as well.
    """
    made = scheduler(nodes, cpu=PODS_PER_NODE, memory="100Gi")
    made.state.ledger.borrowing = Borrowing(preemption=FAIR_SHARE)
    total = nodes * PODS_PER_NODE
    for i in range(OTHERS - 1):
        add_quota(made, f"t{BORROWERS + i}", {"cpu": total // (OTHERS - 1)}, {"cpu": total})
    add_quota(made, "rest", {"cpu": total - total // (OTHERS - 1) * (OTHERS - 1)}, {"cpu": total})
    for i in (*range(BORROWERS), BORROWERS + OTHERS - 1):
        add_quota(made, f"t{i}", {"cpu": 0}, {"cpu": total})
    for i in range(total):
        where = f"n{i % nodes}"
        made.put(pod(f"t{i % BORROWERS}", f"r{i}", "1", "1Gi", nodeName=where, priority=i % 3), 1.0)
    return made


def main(small: bool = False) -> list[Row]:
    """Figures with 5,000 nodes, 50,000 pods and 100 quotas."""
    nodes = 200 if small else 5_000
    made = borrowed_cluster(nodes)
    asks = f"t{BORROWERS + OTHERS - 1}"
    single, several = (attempt_ms(made, asks, str(cpu), cpu, now=LATER) for cpu in (1, 4))
    share = nodes * PODS_PER_NODE // BORROWERS
    too_much = attempt_ms(made, asks, str(share + 1), 0, now=LATER)
    young = attempt_ms(made, asks, "1", 0, now=2.0)
    return [
        Row(f"fair move with one victim, {nodes:,} nodes", single, "ms CPU", ceiling=30.0),
        Row("fair move with four victims", several, "ms CPU", ceiling=30.0),
        Row("no fair move: the share would be too large", too_much, "ms CPU", ceiling=30.0),
        Row("no fair move: all pods are young", young, "ms CPU", ceiling=30.0),
    ]
