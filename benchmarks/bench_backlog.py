"""Backlog benchmark: 100,000 pending pods of 200 classes on 5,000 nodes; 100 running pods end per second.

There is one cluster for each cause of waiting, in a process of its own, so that its memory is measured alone.
Figures per ended pod: CPU time of the event and the next step, pending pods that were tried, and pods that
started in this step. Each ended pod lets one pod start, unless a node selector matches no node.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec import structs

from benchmarks.support.engine_clusters import add_quota, pod, scheduler
from benchmarks.support.row import Row
from scheduler_core.engine.decisions import Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.pods.pod import Pod

# The value that the scheduler process sets.
COLLECTIONS = (50_000, 20, 20)
NODE_CPU = 8
POD_CPU = 4
ENDS_PER_SECOND = 100
# In seconds; shorter than every timeout of pending pods.
AFTER_BACKOFF = 20.0
# A longer measurement is cut; the figures are those of the pods that ended until then.
MOST_SECONDS = 60.0


@dataclass(frozen=True)
class Size:
    """Number of nodes, classes of pending pods, pending pods per class, and running pods that end."""

    nodes: int
    classes: int
    waiting: int
    ends: int


FULL, SMALL = Size(5_000, 200, 500, 1_000), Size(50, 5, 20, 10)


@dataclass(frozen=True)
class Kind:
    """Cause of waiting: max of the own quotas, a full pool of borrowed resources, full nodes, selector."""

    name: str
    own_max: bool = False
    pool: bool = False
    selector: bool = False

    @property
    def helps(self) -> bool:
        """True if the end of a pod lets another pod start."""
        return not self.selector


KINDS = (
    Kind("max is full", own_max=True),
    Kind("pool is full", pool=True),
    Kind("nodes are full"),
    Kind("a selector refuses", selector=True),
)


@dataclass(frozen=True)
class Result:
    """CPU seconds to build the backlog, KB per pending pod, and per ended pod: ms, tries, starts."""

    fill: float
    kilobytes: float
    mean: float
    worst: float
    tries: float
    starts: float


def add_quotas(made: Scheduler, kind: Kind, size: Size) -> None:
    """One quota per class: at its max, or without a min and borrowing from a quota with all of the min."""
    whole = size.nodes * NODE_CPU
    share = whole // size.classes
    if kind.pool:
        add_quota(made, "lender", {"cpu": whole}, {"cpu": whole})
    for number in range(size.classes if kind.own_max or kind.pool else 0):
        low, high = (0, whole) if kind.pool else (share, share)
        add_quota(made, f"t{number}", {"cpu": low}, {"cpu": high})


def running(made: Scheduler, size: Size) -> list[Pod]:
    """Running pods of all classes on full nodes, in shuffled order."""
    per_class = size.nodes * NODE_CPU // POD_CPU // size.classes
    pods = []
    for number in range(per_class * size.classes):
        where = f"n{number % size.nodes}"
        name = f"r{number}"
        pods.append(pod(f"t{number % size.classes}", name, str(POD_CPU), "4Gi", nodeName=where))
        made.put(pods[-1], 1.0)
    random.Random(1).shuffle(pods)
    return pods


def waiting(kind: Kind, size: Size) -> Iterator[Pod]:
    """The backlog, class by class; pods of one template share their parsed spec, as in the process.

    They were created one per second, the classes in turn.
    """
    selector: dict[str, Any] = {"nodeSelector": {"disk": "none-has-it"}} if kind.selector else {}
    for number in range(size.classes):
        like = pod(f"t{number}", "like", str(POD_CPU), "4Gi", **selector)
        for index in range(size.waiting):
            name = f"w{index}"
            created = float(index * size.classes + number)
            yield structs.replace(
                like, name=name, uid=f"{number}/{name}", labels={"app": "bench"}, created=created
            )


def resident() -> float:
    """Resident memory in bytes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measured(kind: Kind, size: Size) -> Result:
    """Figures of one cluster: it is filled, then the pods end one after another."""
    made = scheduler(size.nodes, cpu=NODE_CPU, memory="32Gi")
    add_quotas(made, kind, size)
    ending = running(made, size)[: size.ends]
    made.step(1.5)
    gc.collect()
    before, started = resident(), time.process_time()
    for item in waiting(kind, size):
        made.put(item, 2.0)
    # The second step comes after the backoff of all pods.
    decisions = [*made.step(2.0), *made.step(AFTER_BACKOFF)]
    if any(isinstance(decision, Placed) for decision in decisions):
        raise RuntimeError("a pod of the backlog found room")
    fill = time.process_time() - started
    kilobytes = (resident() - before) / 1024 / (size.classes * size.waiting)
    # As the process does once it has read all lists.
    gc.collect()
    gc.freeze()
    return _ended(made, kind, ending, fill, kilobytes)


def _ended(made: Scheduler, kind: Kind, ending: list[Pod], fill: float, kilobytes: float) -> Result:
    now, until = AFTER_BACKOFF, time.process_time() + MOST_SECONDS
    taken: list[float] = []
    tries = starts = 0
    for item in ending:
        now += 1 / ENDS_PER_SECOND
        began = time.process_time()
        made.remove(item, now)
        decisions = made.step(now)
        taken.append(time.process_time() - began)
        tries += sum(isinstance(decision, Placed | Rejected) for decision in decisions)
        starts += sum(isinstance(decision, Placed) for decision in decisions)
        if began > until:
            break
    count = len(taken)
    if starts != (count if kind.helps else 0):
        raise RuntimeError(f"{kind.name}: {starts} pods started as {count} ended")
    return Result(fill, kilobytes, sum(taken) / count, max(taken), tries / count, starts / count)


def _measured(index: int, size: Size) -> Result:
    gc.set_threshold(*COLLECTIONS)
    return measured(KINDS[index], size)


def main(small: bool = False) -> list[Row]:
    """Rows per kind: cost, tries and starts of an ended pod; memory; time to build the backlog."""
    size = SMALL if small else FULL
    rows = []
    fresh = get_context("spawn")
    for index, kind in enumerate(KINDS):
        with ProcessPoolExecutor(1, mp_context=fresh) as processes:
            found = processes.submit(_measured, index, size).result()
        name = f"{size.classes * size.waiting:,} wait, {kind.name}"
        core = found.mean * ENDS_PER_SECOND * 100
        rows += [
            # Twice the target, because the machine may be busy.
            Row(f"{name}: per ended pod", found.mean * 1e3, "ms CPU", ceiling=0.6),
            Row(f"{name}: the dearest of them", found.worst * 1e3, "ms CPU"),
            Row(f"{name}: at {ENDS_PER_SECOND} ends per second", core, "% of a core", ceiling=10.0),
            Row(f"{name}: tries per ended pod", found.tries, "pods", ceiling=1.0 if kind.helps else 0.0),
            Row(f"{name}: started in the same step", found.starts, "pods", floor=1.0 if kind.helps else None),
            Row(f"{name}: memory per waiting pod", found.kilobytes, "KB", ceiling=3.0),
            Row(f"{name}: until the backlog stands", found.fill, "s CPU"),
        ]
    return rows
