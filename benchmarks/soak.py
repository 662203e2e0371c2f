"""Soak test: memory of one scheduler over millions of events of pods, gangs, quotas and nodes.

`python -m benchmarks.soak [EVENTS]` creates the events in process with unique names, and prints resident
memory. The exit code is 1 if the second half needs a few MiB more than the first.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable

from benchmarks.bench_backlog import resident
from benchmarks.support.engine_clusters import add_gang, add_quota, pod, scheduler
from scheduler_core.controllers.controller import Controller
from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.quota_status import QuotaStatus
from scheduler_core.engine.decisions import Decision, Evicted, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.groups.gang import parse_gang
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import Pod

EVENTS = 10_000_000
NODES, TEAMS, MOST_PODS = 200, 20, 3_000
# What the allocator may keep of what is free, in bytes.
SLACK = 16 * 2**20


class Soak:
    """One overloaded cluster in which all objects are created and deleted.

    Controllers handle changes as in the process, but their writes are dropped.
    """

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.made: Scheduler = scheduler(NODES, cpu=8, memory="32Gi")
        self.now = 1.0
        self.events = 0
        self.serial = 0
        self.pods: list[Pod] = []
        self.gangs: list[tuple[str, list[Pod]]] = []
        self.controllers: list[Controller] = [GangStatusController(), GangLifecycle(), QuotaStatus()]
        share = NODES * 8 // TEAMS
        for team in range(TEAMS):
            add_quota(self.made, f"t{team}", {"cpu": share}, {"cpu": 2 * share})
        self.actions: list[Callable[[], None]] = [self._pod_comes] * 12 + [self._pod_goes] * 9
        self.actions += [self._gang_comes, self._gang_goes, self._quota_changes, self._node_changes]

    def name(self) -> str:
        self.serial += 1
        return f"x{self.serial}"

    def tell(self, what: Callable[..., None], obj: object) -> None:
        what(obj, self.now)
        self.events += 1

    def _pod_comes(self) -> None:
        if len(self.pods) >= MOST_PODS:
            return self._pod_goes()
        cpu = self.rng.choice(("500m", "1", "2", "4"))
        made = pod(
            f"t{self.rng.randrange(TEAMS)}", self.name(), cpu, "1Gi", priority=self.rng.choice((0, 0, 5))
        )
        self.pods.append(made)
        self.tell(self.made.put, made)
        return None

    def _pod_goes(self) -> None:
        if self.pods:
            place = self.rng.randrange(len(self.pods))
            self.pods[place], gone = self.pods[-1], self.pods[place]
            self.pods.pop()
            self.tell(self.made.remove, gone)

    def _gang_comes(self) -> None:
        if len(self.gangs) < TEAMS:
            name, size = self.name(), self.rng.randint(2, 8)
            add_gang(self.made, name, size, "1")
            self.events += 1 + size
            members = [pod("a", f"{name}-{number}", "1", "1Gi", gang=name) for number in range(size)]
            self.gangs.append((name, members))

    def _gang_goes(self) -> None:
        if self.gangs:
            name, members = self.gangs.pop(self.rng.randrange(len(self.gangs)))
            for member in members:
                self.tell(self.made.remove, member)
            self.tell(
                self.made.remove, parse_gang({"metadata": {"name": name, "namespace": "a"}, "spec": {}})
            )

    def _quota_changes(self) -> None:
        share = NODES * 8 // TEAMS
        low = self.rng.randint(share // 2, share)
        add_quota(self.made, f"t{self.rng.randrange(TEAMS)}", {"cpu": low}, {"cpu": 2 * share})
        self.events += 1

    def _node_changes(self) -> None:
        number = self.rng.randrange(NODES)
        labels = {"kubernetes.io/hostname": f"n{number}", "turn": str(self.rng.randrange(100))}
        allocatable = {"cpu": 8, "memory": "32Gi", "pods": 110}
        node = {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": allocatable}}
        self.tell(self.made.put, parse_node(node))

    def turn(self) -> None:
        """Some events and the scheduling steps after them."""
        for _ in range(self.rng.randint(1, 20)):
            self.rng.choice(self.actions)()
        self.now += 0.1
        for decision in self.made.step(self.now):
            self._carried_out(decision)
        for controller in self.controllers:
            controller.reconcile(self.made.state, self.now)

    def _carried_out(self, decision: Decision) -> None:
        if isinstance(decision, Placed):
            self.events += 1
        elif isinstance(decision, Evicted):
            gone = decision.pod
            self.pods = [item for item in self.pods if item.uid != gone.uid]
            self.gangs = [(name, [m for m in items if m.uid != gone.uid]) for name, items in self.gangs]
            self.tell(self.made.remove, gone)


def main(events: int = EVENTS) -> int:
    """Run all events; returns 1 if memory has grown."""
    soak, marks, started = Soak(), list[float](), time.monotonic()
    for part in range(1, 21):
        while soak.events < events * part // 20:
            soak.turn()
        gc.collect()
        marks.append(resident())
        waiting, took = len(soak.made.queue.units), time.monotonic() - started
        mebibytes = marks[-1] / 2**20
        print(f"{soak.events:>10,} events {mebibytes:7.1f} MiB {waiting:>6} wait {took:7.0f} s", flush=True)
    problems = soak.made.state.check()
    print(*problems, sep="\n")
    # The first tenth fills caches.
    grew = max(marks[10:]) - max(marks[2:10])
    print(f"memory grew by {grew / 2**20:.1f} MiB in the second half")
    return 1 if grew > SLACK or problems else 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
