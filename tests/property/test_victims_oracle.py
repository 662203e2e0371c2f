"""Victims of single pods in small worlds, held against all subsets of the candidates.

The model shares no code with the search: pods are whole numbers, and every set of victims is looked at.
MUSTER_ORACLE_VICTIMS sets how many worlds of each kind (a deep run: 20000).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import pytest

from scheduler_core.config.load import BUILTIN, load_config, muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.preemption import cross_node, node_order
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_budget, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.searches import cases

WORLDS: Final = cases(1200, "MUSTER_ORACLE_VICTIMS")
BATCHES: Final = cases(10)
RESOURCES: Final = ("cpu", "memory")
CONFIGS: Final = {
    True: muster_config(),
    False: load_config(
        f"""{BUILTIN}\
  pluginConfig:
  - name: CapacityScheduling
    args: {{crossNodePreemption: false}}
""",
        "victims on one node only",
    ),
}
Sizes = tuple[int, int]


@dataclass(frozen=True)
class Runs:
    """A running pod."""

    name: str
    namespace: str
    node: str
    sizes: Sizes
    priority: int
    start: int
    app: str


@dataclass(frozen=True)
class World:
    """Nodes by room, quotas by min (None: the quota's min does not name it), who runs, and who asks.

    `maxes` has the max of quotas that bound something, None for what they do not. `budgets` has the
    disruptions that each namespace's budget for pods of app x allows.
    """

    nodes: dict[str, Sizes]
    mins: dict[str, tuple[int | None, int | None]]
    running: tuple[Runs, ...]
    budgets: dict[str, int]
    asks: Sizes
    namespace: str
    priority: int
    across: bool
    maxes: dict[str, tuple[int | None, int | None]] = field(default_factory=dict, kw_only=True)

    def room(self, node: str, gone: frozenset[Runs]) -> Sizes:
        here = [pod for pod in self.running if pod.node == node and pod not in gone]
        cpu, memory = (sum(pod.sizes[r] for pod in here) for r in (0, 1))
        return self.nodes[node][0] - cpu, self.nodes[node][1] - memory

    def used(self, namespace: str, gone: frozenset[Runs], r: int) -> int:
        return sum(p.sizes[r] for p in self.running if p.namespace == namespace and p not in gone)

    def named(self, r: int) -> bool:
        return any(low[r] is not None for low in self.mins.values())

    def concerns(self, namespace: str, r: int) -> bool:
        return self.named(r) or self.maxes.get(namespace, (None, None))[r] is not None

    def loan(self, namespace: str, gone: frozenset[Runs], r: int) -> int:
        """Use above min; 0 for a resource that is not the quota's business."""
        if not self.concerns(namespace, r):
            return 0
        return self.used(namespace, gone, r) - (self.mins[namespace][r] or 0)

    def quota_lacks(self, gone: frozenset[Runs], r: int) -> int:
        """What the sum of min is exceeded by with the asking pod."""
        if self.namespace not in self.mins or not self.named(r) or not self.asks[r]:
            return 0
        total = sum(low[r] or 0 for low in self.mins.values())
        return max(0, sum(self.counted(name, gone, r) for name in self.mins) + self.asks[r] - total)

    def counted(self, namespace: str, gone: frozenset[Runs], r: int) -> int:
        """What a quota uses, and others count: no more than its max."""
        high = self.maxes.get(namespace, (None, None))[r]
        used = self.used(namespace, gone, r)
        return used if high is None else min(used, high)

    @property
    def first(self) -> set[str]:
        """Quotas that use more than their max of something that is asked for: they give before the others."""
        nobody: frozenset[Runs] = frozenset()
        asked = [r for r in (0, 1) if self.asks[r]]
        return {n for n in self.mins for r in asked if self.used(n, nobody, r) > self.counted(n, nobody, r)}

    def node_lacks(self, node: str, gone: frozenset[Runs], r: int) -> int:
        return max(0, self.asks[r] - self.room(node, gone)[r]) if self.asks[r] else 0

    def fits(self, node: str, gone: frozenset[Runs]) -> bool:
        lacks = (self.quota_lacks(gone, r) or self.node_lacks(node, gone, r) for r in (0, 1))
        return not any(lacks)

    @property
    def reclaims(self) -> bool:
        return self.namespace in self.mins and all(
            not self.asks[r]
            or not self.named(r)
            or self.loan(self.namespace, frozenset(), r) + self.asks[r] <= 0
            for r in (0, 1)
        )

    def candidates(self) -> list[Runs]:
        if self.reclaims:
            return [
                pod
                for pod in self.running
                if pod.namespace in self.mins
                and pod.namespace != self.namespace
                and any(pod.sizes[r] and self.loan(pod.namespace, frozenset(), r) > 0 for r in (0, 1))
            ]
        own = [p for p in self.running if p.namespace == self.namespace]
        lower = [p for p in own if p.priority < self.priority]
        if self.namespace not in self.mins or len(self.mins) == 1:
            return lower
        left = self._left([p for p in own if p.priority >= self.priority])[0]
        if all(not self.asks[r] or self.asks[r] <= room for r, room in left.items()):
            return lower
        # Who is not covered by the min spares those who are.
        covered = self._left(own)[1]
        return [p for p in lower if p not in covered]

    def _left(self, own: Sequence[Runs]) -> tuple[dict[int, int], list[Runs]]:
        """What these pods leave of the min, and which of them it covers."""
        low = self.mins[self.namespace]
        left = {r: low[r] or 0 for r in (0, 1) if self.concerns(self.namespace, r)}
        covered = []
        for pod in sorted(own, key=lambda pod: (-pod.priority, pod.start)):
            if all(not pod.sizes[r] or pod.sizes[r] <= room for r, room in left.items()):
                covered.append(pod)
                left = {r: room - pod.sizes[r] for r, room in left.items()}
        return left, covered

    def lawful(self, gone: frozenset[Runs]) -> bool:
        """Whether one victim of each quota can be the last, and its quota still borrows then what it uses."""
        if not self.reclaims:
            return True
        for name in {pod.namespace for pod in gone}:
            own = frozenset(pod for pod in gone if pod.namespace == name)
            if not any(
                last.sizes[r] and self.loan(name, own - {last}, r) > 0 for last in own for r in (0, 1)
            ):
                return False
        return True

    def contended(self, node: str) -> list[int]:
        none: frozenset[Runs] = frozenset()
        return [r for r in (0, 1) if self.quota_lacks(none, r) or self.node_lacks(node, none, r)]

    def reach(self, gone: frozenset[Runs], node: str) -> Fraction:
        """What the quotas give beyond what they borrow, in parts of what is asked for."""
        if not self.reclaims:
            return Fraction(0)
        total = Fraction(0)
        for name, r in itertools.product({pod.namespace for pod in gone}, self.contended(node)):
            if self.concerns(name, r):
                taken = sum(pod.sizes[r] for pod in gone if pod.namespace == name)
                total += Fraction(max(0, taken - max(0, self.loan(name, frozenset(), r))), self.asks[r])
        return total

    def strangers(self, gone: frozenset[Runs], node: str) -> int:
        """Victims whose quota borrows nothing that the pod lacks."""
        if not self.reclaims:
            return 0
        lacks = self.contended(node)
        return sum(all(self.loan(pod.namespace, frozenset(), r) <= 0 for r in lacks) for pod in gone)

    def violations(self, gone: frozenset[Runs]) -> int:
        return sum(
            max(0, sum(pod.namespace == name and pod.app == "x" for pod in gone) - allowed)
            for name, allowed in self.budgets.items()
        )

    def ways(self) -> Iterator[tuple[frozenset[Runs], str]]:
        """Every lawful set of victims with a node that it opens."""
        candidates = self.candidates()
        for size in range(1, len(candidates) + 1):
            for some in itertools.combinations(candidates, size):
                gone = frozenset(some)
                if not self.lawful(gone):
                    continue
                for node in self.nodes:
                    alone = all(pod.node == node for pod in gone)
                    if (alone or (self.across and self.namespace in self.mins)) and self.fits(node, gone):
                        yield gone, node


def random_world(rng: random.Random, kind: str) -> World:
    """At most eight candidates. Nodes and quotas are small, so that most pods find them full."""
    nodes = {f"n{i}": (rng.randint(2, 7), rng.randint(2, 7)) for i in range(rng.randint(1, 3))}
    borrowers = ["b", "c", "d"][: rng.randint(1, 3)]
    asks = (rng.randint(1, 4), rng.choice([0, 0, 1, 2, 3]))
    namespaces = {"own": ["a"], "free": ["f"]}.get(kind, borrowers)
    running: list[Runs] = []
    for i in range(rng.randint(1, 8)):
        node = rng.choice(list(nodes))
        sizes = (rng.randint(0, 3), rng.choice([0, 0, 1, 2]))
        here = [pod for pod in running if pod.node == node]
        if all(sum(pod.sizes[r] for pod in here) + sizes[r] <= nodes[node][r] for r in (0, 1)):
            name, priority = rng.choice(namespaces), rng.choice([0, 0, 1, 5])
            running.append(Runs(f"r{i}", name, node, sizes, priority, rng.randint(1, 4), rng.choice("xy")))
    mins: dict[str, tuple[int | None, int | None]] = {}
    if kind != "free":
        memory = rng.random() < 0.6
        low = 0 if kind == "own" else 1
        mins["a"] = (
            low * (asks[0] + rng.randint(0, 1)),
            low * (asks[1] + rng.randint(0, 1)) if memory else None,
        )
        for name in borrowers:
            mins[name] = (rng.randint(0, 4), rng.choice([None, 0, 1, 2, 3]) if memory else None)
    budgets = {name: rng.randint(0, 2) for name in namespaces if rng.random() < 0.5}
    namespace = "f" if kind == "free" else "a"
    world = World(nodes, mins, tuple(running), budgets, asks, namespace, 3, rng.random() < 0.7)
    if kind != "passed":
        return world
    return replace(world, maxes={name: _high(rng, mins[name]) for name in borrowers if rng.random() < 0.8})


def _high(rng: random.Random, low: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """A max that is not below min and may be below use."""
    cpu, memory = ((value or 0) + rng.choice([0, 0, 1, 2]) for value in low)
    return (cpu, memory if rng.random() < 0.5 else None)


def found_by_the_scheduler(world: World) -> tuple[frozenset[Runs], str] | None:
    """(victims, node), with an empty node where the pod fits as it is; None if it has to wait."""
    made = Scheduler(ClusterState(), build_profiles(CONFIGS[world.across], FACTORIES, KNOWN_PLUGINS))
    for name, (cpu, memory) in world.nodes.items():
        made.put(make_node(name).allocatable(cpu=cpu, memory=memory).obj(), 0.0)
    for name, low in world.mins.items():
        listed = {key: value for key, value in zip(RESOURCES, low, strict=True) if value is not None}
        highest = zip(RESOURCES, world.maxes.get(name, (None, None)), strict=True)
        bounds = {key: value for key, value in highest if value is not None}
        made.put(make_quota(f"{name}/q").min(**listed).max(**bounds).obj(), 0.0)
    for name, allowed in world.budgets.items():
        made.put(make_budget(f"{name}/b").selects(app="x").allows(allowed).obj(), 0.0)
    pods = {}
    for pod in world.running:
        sizes = {key: value for key, value in zip(RESOURCES, pod.sizes, strict=True) if value}
        built = make_pod(f"{pod.namespace}/{pod.name}").requests(**sizes).priority(pod.priority)
        raw = built.labels(app=pod.app).on(pod.node).started(pod.start).uid(pod.name).obj()
        pods[raw.uid] = pod
        made.put(raw, 0.0)
    sizes = {key: value for key, value in zip(RESOURCES, world.asks, strict=True) if value}
    asking = make_pod(f"{world.namespace}/p").requests(**sizes).priority(world.priority).obj()
    attempt = made.cycle.attempt(made.profiles[MUSTER_SCHEDULER], asking, 10.0)
    assert made.state.check() == []
    if attempt.slot >= 0:
        return frozenset(), ""
    result = attempt.post_filter
    if result is None or not result.nominated:
        return None
    return frozenset(pods[victim.uid] for victim in result.victims), result.nominated


def faults(world: World) -> list[str]:
    """What is wrong with the scheduler's answer."""
    answer = found_by_the_scheduler(world)
    ways = list(world.ways())
    if answer is None:
        return [f"waits, though it may evict {sorted(p.name for p in ways[0][0])}"] if ways else []
    victims, node = answer
    if not node:
        return [] if any(world.fits(name, frozenset()) for name in world.nodes) else ["it does not fit"]
    out = []
    if not world.lawful(victims) or not victims <= set(world.candidates()):
        out.append("somebody goes who may not")
    if not world.fits(node, victims):
        out.append("it does not fit the node")
    for pod in victims:
        anywhere = world.nodes if world.across and world.namespace in world.mins else [node]
        if any(world.fits(name, victims - {pod}) for name in anywhere):
            out.append(f"{pod.name} could have stayed")
    alone = all(pod.node == node for pod in victims)
    if not alone and not (world.across and world.namespace in world.mins):
        out.append("victims on several nodes")
    if any(way[0] and all(pod.namespace in world.first for pod in way[0]) for way in ways):
        # What passed by goes first, whatever it costs: only among these the usual order decides.
        ways = [way for way in ways if all(pod.namespace in world.first for pod in way[0])]
        if not all(pod.namespace in world.first for pod in victims):
            out.append(f"somebody goes though {sorted(p.name for p in ways[0][0])} would do, who passed by")
    elif world.first:
        return out
    if out:
        return out
    reach = world.reach(victims, node)
    near = [way for way in ways if all(pod.node == way[1] for pod in way[0])] if alone else ways
    least = min(world.reach(*way) for way in near)
    if reach > least or (reach and any(not world.reach(*way) for way in ways)):
        out.append(f"takes {reach} beyond loans, not {least}")
    alien = world.strangers(victims, node)
    if alien and any(not world.strangers(*way) for way in near if world.reach(*way) <= reach):
        out.append("quotas that borrow nothing of what lacks")
    peaceful = [way for way in near if world.reach(*way) <= reach and world.strangers(*way) <= alien]
    if world.violations(victims) and any(not world.violations(gone) for gone, at in peaceful if at == node):
        out.append("violates a budget that could have been kept")
    return out


GREEDY: Final = 200
# Which part of the worlds may wait in vain, reach too far or violate a budget where the order alone decides.
# Of 400 worlds of the kind "reclaim" these were 4, 2 and 1, of the other kinds none.
MOST_GREEDY: Final = {"waits": 0.02, "takes": 0.02, "violates": 0.01}


@pytest.mark.parametrize("kind", ["reclaim", "own", "free"])
@every_seed(range(WORLDS), each=WORLDS // BATCHES)
def test_victims_are_those_of_a_slow_search(kind: str, seed: int) -> None:
    if kind != "reclaim" and seed % 4:
        return
    world = random_world(random.Random(f"{kind} {seed}"), kind)
    assert not faults(world), f"seed {seed}: {faults(world)}, {world}"


@pytest.mark.parametrize("kind", ["reclaim", "own", "free"])
def test_with_too_many_candidates_for_all_sets_victims_are_lawful_and_nearly_always_the_best(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (node_order, cross_node):
        monkeypatch.setattr(module, "MOST_CANDIDATES", 0)
    found: Counter[str] = Counter()
    for seed in range(GREEDY):
        world = random_world(random.Random(f"greedy {kind} {seed}"), kind)
        for fault in faults(world):
            safe = fault.startswith(("waits", "takes", "quotas that", "violates"))
            assert safe, f"seed {seed}: {fault}, {world}"
            found[fault.replace(",", "").split(" ")[0]] += 1
    allowed = {name: part * GREEDY if kind == "reclaim" else 0 for name, part in MOST_GREEDY.items()}
    assert all(number <= allowed.get(name, 0) for name, number in found.items()), found


# Which part of the worlds may take more than the least beyond loans: where several quotas are above their
# max, all that they use above it is taken into account. Of 3,000 worlds these were 4.
MOST_FURTHER: Final = 0.01


@pytest.mark.parametrize("batch", range(BATCHES), ids=f"one seed of {BATCHES}, from {{}}".format)
def test_pods_above_max_are_evicted_first(batch: int) -> None:
    found: Counter[str] = Counter()
    tried = 0
    for seed in range(batch, WORLDS, BATCHES):
        world = random_world(random.Random(f"passed {seed}"), "passed")
        tried += bool(world.first)
        if not world.across:
            continue
        for fault in faults(world):
            assert fault.startswith(("takes", "quotas that")), f"seed {seed}: {fault}, {world}"
            found[fault] += 1
    assert found.total() <= 1 + MOST_FURTHER * WORLDS / BATCHES, found
    assert tried > WORLDS / BATCHES / 4, "worlds in which nobody is above a max say nothing"


@pytest.mark.long
def test_on_one_node_alone_what_passed_by_nearly_always_goes_first() -> None:
    """Quota that several quotas above their max hold on other nodes cannot be had there."""
    found: Counter[str] = Counter()
    for seed in range(WORLDS):
        world = replace(random_world(random.Random(f"passed {seed}"), "passed"), across=False)
        for fault in faults(world):
            safe = fault.startswith(("waits", "takes", "quotas that", "somebody goes though"))
            assert safe, f"seed {seed}: {fault}, {world}"
            found[fault.partition(" ")[0]] += 1
    # Of 1,200 worlds these were 8. One among few says nothing of their part.
    assert found.total() <= 1 + MOST_FURTHER * WORLDS, found
