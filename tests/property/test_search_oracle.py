"""Searches where more than room and quota keeps a pod off, held against all subsets of the candidates.

Nodes are closed to the pod, have shrunk, or are kept for a nominated pod in part; pods that it avoids are in
the way, others leave already, and victims belong to gangs. What is known of plain worlds
(`test_victims_oracle.py`) is not asked again here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import pytest

from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.names import LABEL_HOSTNAME, LABEL_ZONE, MUSTER_SCHEDULER
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.property.test_victims_oracle import CONFIGS, RESOURCES, Runs, Sizes, World, random_world
from tests.support.builders import make_budget, make_group, make_node, make_pod, make_quota
from tests.support.searches import cases

# Of each kind and feature; a deep run: 2000.
WORLDS: Final = cases(30, "MUSTER_ORACLE_SEARCHES")
FEATURES: Final = ("closed", "shrunk", "booked", "leaving", "apart", "gangs")
NONE: Final[frozenset[Runs]] = frozenset()
Way = tuple[frozenset[Runs], str]


@dataclass(frozen=True)
class Harder(World):
    """Also nodes that are `closed`, their zones, pods that are `going`, and gangs by (quorum, members).

    `booked` is what a nominated pod that goes first will take of a node. With `avoids` the pod may not be in
    the same zone, or on the same node, as any pod of app x.
    """

    closed: frozenset[str]
    zones: dict[str, str]
    going: frozenset[str]
    gangs: dict[str, tuple[int, frozenset[str]]]
    avoids: str
    booked: dict[str, Sizes]

    def leaving(self) -> frozenset[Runs]:
        return frozenset(pod for pod in self.running if pod.name in self.going)

    def room(self, node: str, gone: frozenset[Runs]) -> tuple[int, int]:
        cpu, memory = super().room(node, gone | self.leaving())
        taken = self.booked.get(node, (0, 0))
        return cpu - taken[0], memory - taken[1]

    def used(self, namespace: str, gone: frozenset[Runs], r: int) -> int:
        return super().used(namespace, gone | self.leaving(), r)

    def candidates(self) -> list[Runs]:
        found = {pod.name for pod in super().candidates()}
        for _, members in self.gangs.values() if self.reclaims else ():
            # Who uses nothing that its quota borrows may go with its gang; who is spared in a quota may not.
            found |= members if members & found else set()
        return [pod for pod in self.running if pod.name in found - self.going]

    def domain(self, node: str) -> str:
        return self.zones[node] if self.avoids == LABEL_ZONE else node

    def in_the_way(self, node: str, gone: frozenset[Runs]) -> bool:
        return bool(self.avoids) and any(
            pod.app == "x" and self.domain(pod.node) == self.domain(node)
            for pod in self.running
            if pod not in gone and pod.name not in self.going
        )

    def fits(self, node: str, gone: frozenset[Runs]) -> bool:
        return node not in self.closed and not self.in_the_way(node, gone) and super().fits(node, gone)

    def torn(self, gone: frozenset[Runs]) -> list[frozenset[Runs]]:
        """Of each gang that cannot go on without those: who of it goes."""
        found = []
        names = {pod.name for pod in gone}
        for quorum, members in self.gangs.values():
            there = members - self.going
            if members & names and len(there) >= quorum > len(there - names):
                found.append(frozenset(pod for pod in gone if pod.name in members))
        return found

    def whole(self, gone: frozenset[Runs]) -> bool:
        """Whether of each gang that cannot go on all go."""
        return all(
            {pod.name for pod in part} == members - self.going
            for part in self.torn(gone)
            for _, members in self.gangs.values()
            if {pod.name for pod in part} & members
        )

    def lawful(self, gone: frozenset[Runs]) -> bool:
        if not self.whole(gone):
            return False
        if not self.reclaims:
            return True
        units = self.units(gone)
        for name in {pod.namespace for pod in gone}:
            own = frozenset(pod for pod in gone if pod.namespace == name)
            theirs = [unit for unit in units if unit & own]
            if not all(self.uses_borrowed(unit, name, NONE) for unit in theirs):
                return False
            if not any(self.uses_borrowed(last, name, own - last) for last in theirs):
                return False
        return True

    def in_turn(self, gone: frozenset[Runs]) -> bool:
        """Whether each can be taken while its quota still borrows something that it uses, in some order."""
        if not self.reclaims:
            return True

        def rest_goes(taken: frozenset[Runs], units: list[frozenset[Runs]]) -> bool:
            return not units or any(
                self.uses_borrowed(unit, min(pod.namespace for pod in unit), taken)
                and rest_goes(taken | unit, [other for other in units if other is not unit])
                for unit in units
            )

        return rest_goes(NONE, self.units(gone))

    def spares_a_gang(self, node: str, gone: frozenset[Runs]) -> bool:
        """Whether a gang that goes could go on with members that the pod does not need to go.

        Who of it then goes is taken alone, and by itself has to use what is borrowed.
        """
        return any(
            self.fits(node, gone - frozenset(stay))
            for quorum, members in self.gangs.values()
            for part in self.torn(gone)
            if {pod.name for pod in part} <= members
            for stay in combinations(part, quorum)
        )

    def uses_borrowed(self, unit: frozenset[Runs], namespace: str, gone: frozenset[Runs]) -> bool:
        """Whether those who go together use something that their quota borrows once others are gone."""
        return any(sum(pod.sizes[r] for pod in unit) and self.loan(namespace, gone, r) > 0 for r in (0, 1))

    @property
    def anywhere(self) -> bool:
        """Whether victims may be on other nodes than the pod's."""
        return self.across and (self.namespace in self.mins or self.avoids == LABEL_ZONE)

    def units(self, gone: frozenset[Runs]) -> list[frozenset[Runs]]:
        """Who goes together: gangs that cannot go on, and single pods."""
        parts = self.torn(gone)
        return [*parts, *(frozenset((pod,)) for pod in gone if not any(pod in part for part in parts))]

    def near(self, gone: frozenset[Runs], node: str) -> bool:
        """Whether of all that go together somebody runs on the node."""
        return all(any(pod.node == node for pod in unit) for unit in self.units(gone))

    def ways(self) -> Iterator[Way]:
        candidates = self.candidates()
        for size in range(1, len(candidates) + 1):
            for some in combinations(candidates, size):
                gone = frozenset(some)
                if self.lawful(gone):
                    for node in self.nodes:
                        if self.spares_a_gang(node, gone):
                            continue
                        # On one node only gangs are asked for what their members there free.
                        here = frozenset(pod for pod in gone if pod.node == node)
                        enough = self.anywhere or (self.near(gone, node) and self.fits(node, here))
                        if enough and self.fits(node, gone):
                            yield gone, node


def harder(seed: int, kind: str, feature: str) -> Harder:
    """A random world with some of what the feature is about."""
    rng = random.Random(f"{feature} {kind} {seed}")
    plain = random_world(rng, kind)
    nodes, names = list(plain.nodes), [pod.name for pod in plain.running]
    closed = frozenset(name for name in nodes if feature == "closed" and rng.random() < 0.4)
    zones = {name: rng.choice(("z1", "z1", "z2")) for name in nodes}
    # Who leaves another node of the zone is taken as gone only where victims may be there, too.
    leave = feature == "leaving" or (feature == "apart" and plain.across)
    going = frozenset(name for name in names if leave and rng.random() < 0.3)
    members: dict[str, set[str]] = {}
    for pod in plain.running:
        if feature == "gangs" and rng.random() < 0.7:
            members.setdefault(f"{pod.namespace}/{rng.choice('gh')}", set()).add(pod.name)
    gangs = {key: (rng.randint(1, len(names_)), frozenset(names_)) for key, names_ in members.items()}
    avoids = rng.choice((LABEL_ZONE, LABEL_ZONE, LABEL_HOSTNAME)) if feature == "apart" else ""
    rooms = dict(plain.nodes)
    if feature == "shrunk":
        rooms = {
            name: (max(0, cpu - rng.randint(0, 3)), max(0, memory - rng.randint(0, 3)))
            for name, (cpu, memory) in rooms.items()
        }
    booked = {}
    if feature == "booked":
        booked = {name: (rng.randint(0, 2), rng.randint(0, 1)) for name in nodes if rng.random() < 0.5}
    return Harder(
        rooms,
        plain.mins,
        plain.running,
        plain.budgets if feature != "gangs" else {},
        plain.asks,
        plain.namespace,
        plain.priority,
        plain.across,
        closed,
        zones,
        going,
        gangs,
        avoids,
        booked,
    )


def answer(world: Harder) -> tuple[frozenset[Runs], str, bool] | None:
    """(victims, node, whether the pod is placed at once); None if it has to wait."""
    made = Scheduler(ClusterState(), build_profiles(CONFIGS[world.across], FACTORIES, KNOWN_PLUGINS))
    for name, (cpu, memory) in world.nodes.items():
        node = make_node(name).allocatable(cpu=cpu, memory=memory).label(LABEL_ZONE, world.zones[name])
        made.put((node.taint("closed") if name in world.closed else node).obj(), 0.0)
    for name, low in world.mins.items():
        listed = {key: value for key, value in zip(RESOURCES, low, strict=True) if value is not None}
        made.put(make_quota(f"{name}/q").min(**listed).obj(), 0.0)
    for name, allowed in world.budgets.items():
        made.put(make_budget(f"{name}/b").selects(app="x").allows(allowed).obj(), 0.0)
    gang_of = {name: key for key, (_, members) in world.gangs.items() for name in members}
    for key, (quorum, _) in world.gangs.items():
        made.put(make_group(key).needs(quorum).obj(), 0.0)
    for pod in world.running:
        sizes = {key: value for key, value in zip(RESOURCES, pod.sizes, strict=True) if value}
        built = make_pod(f"{pod.namespace}/{pod.name}").requests(**sizes).priority(pod.priority)
        built.labels(app=pod.app).on(pod.node).started(pod.start).uid(pod.name)
        if pod.name in gang_of:
            built.group(gang_of[pod.name].partition("/")[2])
        made.put((built.deleting(1.0) if pod.name in world.going else built).obj(), 0.0)
    for name, taken in world.booked.items():
        sizes = {key: value for key, value in zip(RESOURCES, taken, strict=True) if value}
        first = make_pod(f"f/for-{name}").uid(f"for-{name}").requests(**sizes).priority(9).obj()
        made.state.put_pod(first)
        made.state.nominations.put(first, name, made.state.vector(first))
    sizes = {key: value for key, value in zip(RESOURCES, world.asks, strict=True) if value}
    asking = make_pod(f"{world.namespace}/p").requests(**sizes).priority(world.priority)
    if world.avoids:
        term = {
            "topologyKey": world.avoids,
            "labelSelector": {"matchLabels": {"app": "x"}},
            "namespaceSelector": {},
        }
        asking.spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    attempt = made.cycle.attempt(made.profiles[MUSTER_SCHEDULER], asking.obj(), 10.0)
    assert made.state.check() == []
    if attempt.slot >= 0:
        return NONE, made.state.nodes.names[attempt.slot], True
    result = attempt.post_filter
    if result is None or not result.nominated:
        return None
    by_name = {pod.name: pod for pod in world.running}
    return frozenset(by_name[victim.uid] for victim in result.victims), result.nominated, False


def wrong(world: Harder) -> list[str]:
    """What is wrong with the answer, in words."""
    found = answer(world)
    at_once = any(world.fits(name, NONE) for name in world.nodes)
    if found is None:
        if at_once:
            return ["waits for nothing, though who leaves makes room"]
        # Some lawful sets are found only with victims of another resource that come last: none is promised.
        way = next((way for way in world.ways() if world.in_turn(way[0])), None)
        return [f"waits, though {sorted(p.name for p in way[0])} open {way[1]}"] if way else []
    victims, node, placed = found
    if placed:
        return []
    out = []
    if not world.fits(node, victims):
        out.append("it does not fit the node")
    if victims and at_once:
        out.append("somebody goes though who leaves makes room")
    if not world.lawful(victims) or not victims <= set(world.candidates()):
        out.append("somebody goes who may not")
    if not world.anywhere and not world.near(victims, node):
        out.append("victims on other nodes")
    for spared in world.units(victims):
        at = world.nodes if world.across and world.namespace in world.mins else [node]
        if any(world.fits(name, victims - spared) for name in at):
            out.append(f"{sorted(pod.name for pod in spared)} could have stayed")
    return out


@pytest.mark.parametrize("kind", ["reclaim", "own", "free"])
@pytest.mark.parametrize("feature", FEATURES)
def test_victims_are_lawful_needed_and_found(feature: str, kind: str) -> None:
    for seed in range(WORLDS):
        world = harder(seed, kind, feature)
        assert not wrong(world), f"seed {seed}: {wrong(world)}, {world}"


def test_a_victim_not_needed_after_evictions_elsewhere_stays() -> None:
    """r6 keeps the pod off n1; n0 is free for it when r0 has left, so only the quota needs victims."""
    assert wrong(harder(52, "reclaim", "apart")) == []


def test_a_gang_with_a_member_that_its_quota_covers_stays_as_a_whole() -> None:
    """r3 requests nothing, so the min covers it; only all of its gang would make room for a borrower."""
    assert wrong(harder(10, "own", "gangs")) == []


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(303, id="some use nothing that their quota borrows"),
        pytest.param(1187, id="the first of them ends the loan"),
        pytest.param(1964, id="another gang has nothing to give back"),
    ],
)
def test_a_gang_that_goes_as_a_whole_counts_as_one(seed: int) -> None:
    assert wrong(harder(seed, "reclaim", "gangs")) == []
