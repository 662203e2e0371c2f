"""What was decided before changes nothing: a scheduler decides as one that has just read the same objects.

Classes of equal pods, scores, bits and quotas are remembered between decisions. Here every decision of a
scheduler with a history is compared with that of a new one.
"""

from __future__ import annotations

import random
from typing import Any

from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from tests.support.builders import (
    Builder,
    NodeBuilder,
    PodBuilder,
    make_budget,
    make_node,
    make_pod,
    make_quota,
)
from tests.support.every import every_seed
from tests.support.gang_scheduler import GangScheduler
from tests.support.searches import cases

ZONE, HOST = "zone", "kubernetes.io/hostname"
NODES = 6


def told(decisions: list[Decision]) -> list[Any]:
    """Decisions as what they say: nodes, messages, victims."""
    found: list[Any] = []
    for item in decisions:
        match item:
            case Placed(pod=pod, node=node):
                found.append(("placed", pod.name, node))
            case Rejected(pod=pod, message=message, nominated=node):
                found.append(("rejected", pod.name, message, node))
            case Evicted(pod=pod):
                found.append(("evicted", pod.name))
            case _:
                found.append(item)
    return found


class World:
    """Objects as the API has them, and a scheduler that saw them come."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.objects: dict[tuple[str, str], Any] = {}
        self.veteran = GangScheduler()
        self.serial = 0
        for number in range(NODES):
            self.put(self.node(number))
        for space in "ab":
            self.put(
                make_quota(f"{space}/q").min(cpu=self.rng.randint(4, 9)).max(cpu=self.rng.randint(10, 20))
            )
        self.put(make_budget("a/web").selects(app="web").allows(self.rng.randint(0, 2)))

    def node(self, number: int) -> NodeBuilder:
        rng = self.rng
        node = (
            make_node(f"n{number}").label(ZONE, rng.choice("xy")).allocatable(cpu=rng.randint(3, 6), memory=9)
        )
        if rng.random() < 0.2:
            node.taint("t", effect=rng.choice(["NoSchedule", "PreferNoSchedule"]))
        if rng.random() < 0.1:
            node.unschedulable()
        if rng.random() < 0.5:
            node.label("disk", "ssd")
        return node

    def quota(self, space: str) -> Builder:
        return make_quota(f"{space}/q").min(cpu=self.rng.randint(0, 9)).max(cpu=self.rng.randint(9, 20))

    def pod(self) -> PodBuilder:
        """One of a few classes: most pods equal others."""
        rng = self.rng
        self.serial += 1
        space, kind = rng.choice("abf"), rng.randrange(7)
        pod = make_pod(f"{space}/p{self.serial}").uid(f"p{self.serial}").requests(cpu=rng.choice((1, 1, 2)))
        pod.priority(rng.choice((0, 0, 0, 5))).labels(app=rng.choice(("web", "db"))).created(
            float(self.serial)
        )
        term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
        match kind:
            case 1:
                pod.selector(disk="ssd")
            case 2:
                pod.tolerates("t")
            case 3:
                pod.spec(
                    affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
                )
            case 4:
                spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
                pod.spec(topologySpreadConstraints=[{**spread, "labelSelector": term["labelSelector"]}])
            case 5:
                pod.raw["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            case 6:
                pod.never()
        return pod

    def put(self, builder: Builder) -> None:
        space = "" if builder.raw["kind"] == "Pod" else builder.meta.get("namespace", "")
        self.objects[builder.raw["kind"], space + builder.meta["name"]] = builder
        self.veteran.scheduler.put(builder.obj(), self.veteran.now)  # type: ignore[attr-defined]

    def remove(self, key: tuple[str, str]) -> None:
        self.veteran.scheduler.remove(self.objects.pop(key).obj(), self.veteran.now)

    def newcomer(self) -> GangScheduler:
        made = GangScheduler()
        made.now = self.veteran.now
        for builder in self.objects.values():
            made.scheduler.put(builder.obj(), made.now)
        return made

    def change(self) -> None:
        rng = self.rng
        running = [key for key in self.objects if key[0] == "Pod"]
        match rng.randrange(4):
            case 0:
                self.put(self.node(rng.randrange(NODES)))
            case 1 if running:
                self.remove(rng.choice(running))
            case 2 if running:
                self.put(self.objects[rng.choice(running)].labels(app=rng.choice(("web", "db"))))
            case 3:
                self.put(
                    make_quota(f"{rng.choice('ab')}/q").min(cpu=rng.randint(0, 9)).max(cpu=rng.randint(5, 20))
                )

    def decide(self) -> tuple[list[Any], list[Any]]:
        """Decisions about new pods, and those of a scheduler without a past; then they are carried out."""
        self.veteran.now += 1.0
        for pod in [self.pod() for _ in range(self.rng.choice((1, 1, 3)))]:
            self.put(pod)
        fresh = told(self.newcomer().step())
        decisions = self.veteran.step()
        for item in decisions:
            if isinstance(item, Placed):
                self.put(self.objects["Pod", item.pod.name].on(item.node).started(self.veteran.now))
        for item in decisions:
            if isinstance(item, Rejected | Evicted):
                self.remove(("Pod", item.pod.name))
        return told(decisions), fresh


@every_seed(range(cases(10)), each=2)
def test_a_scheduler_with_a_history_decides_as_one_without(seed: int) -> None:
    world = World(seed)
    for _ in range(40):
        known, fresh = world.decide()
        assert known == fresh
        if world.rng.random() < 0.6:
            world.change()
