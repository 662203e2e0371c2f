"""Waiting pods in classes, found by index, start where and when they would if every event asked every pod."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.queue.scheduling_queue import alone
from scheduler_core.engine.queue.unit import Part
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.searches import cases

CONFIG = muster_config()
CLUSTERS = cases(150, "MUSTER_CLASS_CLUSTERS")
STEPS = 25
Change = tuple[str, Any]


def indexed() -> Scheduler:
    """Without backoff, so that a try in vain changes nothing."""
    profiles = build_profiles(CONFIG, FACTORIES, KNOWN_PLUGINS)
    return Scheduler(ClusterState(), profiles, initial_backoff=0.0)


def walking() -> Scheduler:
    """One that asks every class at every event, and lets each that says yes take its turn."""
    made = indexed()
    on_event = made.queue.on_event

    def asks_all(event: Any, now: float, concerns: Any = None) -> int:
        return on_event(event, now)

    made.queue.on_event = asks_all  # type: ignore[method-assign]
    return made


def one_by_one() -> Scheduler:
    """One that asks every pod at every event, and tries each that says yes."""
    made = walking()
    made.queue.traits = alone
    return made


class Cluster:
    """A random one: few kinds of pods, many of each, under full quotas and on full nodes."""

    def __init__(self, seed: int, evicting: bool = True) -> None:
        self.rng = random.Random(seed)
        self.evicting = evicting
        self.pods: dict[str, Pod] = {}
        self.number = 0
        self.kinds = [self._kind() for _ in range(self.rng.randint(2, 5))]

    def _kind(self) -> Callable[[str], PodBuilder]:
        rng = self.rng
        namespace, cpu = rng.choice("abc"), rng.choice((1, 1, 2, 3))
        priority, disk = rng.choice((0, 0, 0, 5)), rng.choice((None, None, "ssd"))
        never, group = rng.random() < 0.2 or not self.evicting, rng.random() < 0.2

        def make(name: str) -> PodBuilder:
            made = make_pod(f"{namespace}/{name}").uid(name).requests(cpu=cpu).priority(priority)
            made = made.selector(disk=disk) if disk else made
            made = made.never() if never else made
            # Two gangs of equal pods, of which each gets every other one.
            return made.group(f"g{int(name[1:]) % 2}") if group else made

        return make

    def begin(self) -> Iterator[Change]:
        rng = self.rng
        for number in range(rng.randint(1, 4)):
            yield "put", self._node(number)
        for namespace in "abc":
            if rng.random() < 0.7:
                low = rng.randint(0, 5)
                yield "put", make_quota(f"{namespace}/q").min(cpu=low).max(cpu=low + rng.randint(0, 6)).obj()
            if rng.random() < 0.5:
                needed = rng.randint(1, 3)
                for number in range(2):
                    yield "put", make_group(f"{namespace}/g{number}").needs(needed).obj()

    def _node(self, number: int) -> Any:
        made = make_node(f"n{number}").allocatable(cpu=self.rng.randint(2, 6), pods=20)
        return (made.label("disk", "ssd") if self.rng.random() < 0.5 else made).obj()

    def change(self) -> Iterator[Change]:
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            match rng.randrange(10):
                case 0 | 1 | 2 | 3:
                    make = rng.choice(self.kinds)
                    for _ in range(rng.randint(1, 4)):
                        self.number += 1
                        pod = make(f"p{self.number}").created(rng.randint(1, 9)).obj()
                        self.pods[pod.uid] = pod
                        yield "put", pod
                case 4 | 5 | 6 | 7:
                    if self.pods:
                        yield "remove", self.pods.pop(rng.choice(sorted(self.pods)))
                case 8:
                    yield "put", self._node(rng.randrange(5))
                case _:
                    low = rng.randint(0, 6)
                    made = make_quota(f"{rng.choice('abc')}/q").min(cpu=low).max(cpu=low + rng.randint(0, 6))
                    yield "put", made.obj()


def told(decisions: list[Decision]) -> list[tuple[str, ...]]:
    """What came of a step, but for who waits on without a node."""
    found: list[tuple[str, ...]] = []
    for item in decisions:
        if isinstance(item, Placed):
            found.append(("placed", item.pod.name, item.node))
        elif isinstance(item, Evicted):
            found.append(("evicted", item.pod.name, item.preemptor.name))
        elif isinstance(item, Rejected) and item.nominated:
            found.append(("nominated", item.pod.name, item.nominated))
    return found


def settle(made: Scheduler, now: float) -> list[tuple[str, ...]]:
    """Steps until nothing happens; who is evicted goes at once."""
    found: list[tuple[str, ...]] = []
    for _ in range(30):
        decisions = made.step(now)
        found += told(decisions)
        gone = [item.pod for item in decisions if isinstance(item, Evicted)]
        for pod in gone:
            made.remove(pod, now)
        if not gone:
            break
    return found


def play(cluster: Cluster, one: Scheduler, other: Scheduler) -> None:
    """Both are told the same; whom one starts and evicts, the other one does, in the same order."""
    now = 1.0
    for step in range(STEPS):
        changes = list(cluster.begin() if step == 0 else cluster.change())
        outcomes = []
        for made in (one, other):
            for what, obj in changes:
                (made.put if what == "put" else made.remove)(obj, now)
            outcomes.append(settle(made, now))
        assert outcomes[0] == outcomes[1], f"step {step}"
        for what, name, *_ in outcomes[0]:
            if what == "evicted":
                cluster.pods.pop(name, None)
        now += 1.0
    assert not one.state.check()


@every_seed(range(CLUSTERS), each=25)
def test_the_index_starts_the_same_pods_as_asking_every_class(seed: int) -> None:
    play(Cluster(seed), indexed(), walking())


@every_seed(range(CLUSTERS), each=25)
def test_classes_start_as_if_every_pod_were_tried(seed: int) -> None:
    """Without evictions: the next of a class might wait for who leaves, where the first one had not."""
    play(Cluster(seed, evicting=False), indexed(), one_by_one())


@every_seed(range(CLUSTERS), each=25)
def test_nobody_waits_who_would_start_if_tried(seed: int) -> None:
    """After a random number of steps everybody who waits is tried: nobody starts, evicts or is nominated."""
    cluster, made, now = Cluster(seed), indexed(), 1.0
    for step in range(random.Random(seed).randrange(1, STEPS)):
        for what, obj in cluster.begin() if step == 0 else cluster.change():
            (made.put if what == "put" else made.remove)(obj, now)
        for what, name, *_ in settle(made, now):
            if what == "evicted":
                cluster.pods.pop(name, None)
        now += 1.0
    nominated = set(made.state.nominations.uids)
    for unit in [unit for unit in made.queue.units.values() if unit.part is Part.UNSCHEDULABLE]:
        made.queue.activate(unit, now)
    found = told(made.step(now))
    assert [item for item in found if item[0] != "nominated" or item[1] not in nominated] == []
