"""A backlog: 100,000 pods wait on 5,000 nodes, in 200 classes, and 100 running pods end per second.

Four clusters, one for each thing that keeps pods waiting, each in a process of its own, so that its memory is
counted alone. Per ended pod: processor time of the event and of the step after it, how many waiting pods were
tried, and how many started in that same step. As many can start as ended, except where a selector refuses.
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

from msgspec import structs

from benchmarks.engine_clusters import add_quota, pod, scheduler
from benchmarks.row import Row
from scheduler_core.engine.decisions import Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.pod import Pod

# As the process sets it.
COLLECTIONS = (50_000, 20, 20)
NODE_CPU = 8
POD_CPU = 4
ENDS_PER_SECOND = 100
# Seconds; nobody has waited too long by then.
AFTER_BACKOFF = 20.0
# What takes longer than this is not measured to its end: the figures are of the pods that ended until then.
MOST_SECONDS = 60.0


@dataclass(frozen=True)
class Size:
    """Nodes, classes of waiting pods, waiting pods in each, and how many running pods end."""

    nodes: int
    classes: int
    waiting: int
    ends: int


FULL, SMALL = Size(5_000, 200, 500, 1_000), Size(50, 5, 20, 10)


@dataclass(frozen=True)
class Kind:
    """What keeps the pods waiting: their own quotas' max, a pool that all of them borrow from, or neither."""

    name: str
    own_max: bool = False
    pool: bool = False
    selector: bool = False

    @property
    def helps(self) -> bool:
        """Whether the end of a pod lets another start."""
        return not self.selector


KINDS = (
    Kind("max is full", own_max=True),
    Kind("pool is full", pool=True),
    Kind("nodes are full"),
    Kind("a selector refuses", selector=True),
)


@dataclass(frozen=True)
class Result:
    """Seconds of CPU until the backlog stood, KB per waiting pod, and per ended pod: ms, tries, starts."""

    fill: float
    kilobytes: float
    mean: float
    worst: float
    tries: float
    starts: float


def add_quotas(made: Scheduler, kind: Kind, size: Size) -> None:
    """A quota per class: full with its share, or without a min, borrowing from one that has it all."""
    whole = size.nodes * NODE_CPU
    share = whole // size.classes
    if kind.pool:
        add_quota(made, "lender", {"cpu": whole}, {"cpu": whole})
    for number in range(size.classes if kind.own_max or kind.pool else 0):
        low, high = (0, whole) if kind.pool else (share, share)
        add_quota(made, f"t{number}", {"cpu": low}, {"cpu": high})


def running(made: Scheduler, size: Size) -> list[Pod]:
    """Pods of all classes on full nodes, in an order of their own."""
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
    """The backlog, class by class; as in the process, pods of one template share what their spec says.

    They were created one per second, the classes in turn.
    """
    selector = {"nodeSelector": {"disk": "none-has-it"}} if kind.selector else {}
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
    """One cluster: filled, then one pod after the other ends."""
    made = scheduler(size.nodes, cpu=NODE_CPU, memory="32Gi")
    add_quotas(made, kind, size)
    ending = running(made, size)[: size.ends]
    made.step(1.5)
    gc.collect()
    before, started = resident(), time.process_time()
    for item in waiting(kind, size):
        made.put(item, 2.0)
    # The second step is after their backoff, which ends for all of them at once.
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
    """Per kind: what an ended pod costs, tries and starts; memory; the time until the backlog stands."""
    size = SMALL if small else FULL
    rows = []
    fresh = get_context("spawn")
    for index, kind in enumerate(KINDS):
        with ProcessPoolExecutor(1, mp_context=fresh) as processes:
            found = processes.submit(_measured, index, size).result()
        name = f"{size.classes * size.waiting:,} wait, {kind.name}"
        core = found.mean * ENDS_PER_SECOND * 100
        rows += [
            # Twice what is promised, as the machine may be busy.
            Row(f"{name}: per ended pod", found.mean * 1e3, "ms CPU", ceiling=0.6),
            Row(f"{name}: the dearest of them", found.worst * 1e3, "ms CPU"),
            Row(f"{name}: at {ENDS_PER_SECOND} ends per second", core, "% of a core", ceiling=10.0),
            Row(f"{name}: tries per ended pod", found.tries, "pods", ceiling=1.0 if kind.helps else 0.0),
            Row(f"{name}: started in the same step", found.starts, "pods", floor=1.0 if kind.helps else None),
            Row(f"{name}: memory per waiting pod", found.kilobytes, "KB", ceiling=3.0),
            Row(f"{name}: until the backlog stands", found.fill, "s CPU"),
        ]
    return rows
