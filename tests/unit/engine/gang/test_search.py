"""A small gang starts exactly where an assignment of its members exists, also in domains."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from scheduler_core.engine.gang.members import largest_share
from scheduler_core.engine.gang.search import MOST_DOMAINS, first_slots, shared_topology_keys
from tests.support.builders import PodBuilder, make_group, make_node, make_pod
from tests.support.every import every_seed
from tests.support.gang_scheduler import GangScheduler, member, placed

# (CPUs, disk)
Size = tuple[int, str]


def feasible(nodes: list[Size], members: list[Size], need: int) -> bool:
    """Whether `need` of the members have nodes of their disk and enough CPUs: all ways are tried."""
    for chosen in itertools.combinations(members, need):
        for seats in itertools.product(range(len(nodes)), repeat=need):
            left = [cpu for cpu, _ in nodes]
            for (cpu, disk), seat in zip(chosen, seats, strict=True):
                left[seat] -= cpu if disk in ("", nodes[seat][1]) else 99
            if min(left) >= 0:
                return True
    return False


@every_seed(range(60))
def test_a_gang_starts_where_there_is_a_way(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [(rng.randint(1, 4), rng.choice(("ssd", "hdd"))) for _ in range(rng.randint(2, 3))]
    members = [(rng.randint(1, 3), rng.choice(("", "ssd", "hdd"))) for _ in range(rng.randint(2, 5))]
    need = rng.randint(max(1, len(members) - 1), len(members))
    made = GangScheduler([], g=need)
    for number, (cpu, disk) in enumerate(nodes):
        made.scheduler.put(make_node(f"n{number}").labels(disk=disk).allocatable(cpu=cpu).obj(), made.now)
    for number, (cpu, disk) in enumerate(members):
        pod = member(f"m{number}", cpu=cpu)
        made.put(pod.selector(disk=disk) if disk else pod)
    found = placed(made.step())
    assert (len(found) >= need) is feasible(nodes, members, need)
    assert found or not made.state.placed, "all or nothing"


def test_a_gang_that_does_not_fit_beside_others_holds_nothing() -> None:
    made = GangScheduler([2, 2], g=3)
    made.put(make_pod("f/x").uid("x").requests(cpu=1).on("n0"))
    made.put(member("a", cpu=2), member("b", cpu=1), member("c", cpu=2))
    assert (placed(made.step()), set(made.state.placed)) == ({}, {"x"})


@pytest.mark.parametrize(
    ("pod", "share"),
    [
        pytest.param(make_pod("a/p").requests(cpu=1, memory=4), 0.5, id="the larger of two"),
        pytest.param(make_pod("a/p").requests(gpu=4), 0.0, id="what the cluster has not"),
        pytest.param(make_pod("a/p"), 0.0, id="nothing"),
    ],
)
def test_the_largest_share_of_the_cluster(pod: PodBuilder, share: float) -> None:
    assert largest_share(pod.obj(), {"cpu": 4000, "memory": 8, "nvidia.com/gpu": 0}) == share


def test_members_beyond_the_need_take_what_is_left_after_the_start() -> None:
    made = GangScheduler([3], g=2)
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(member("a", cpu=1), member("b", cpu=2), member("c", cpu=2))
    assert len(placed(made.step())) == 2


ZONE = "topology.kubernetes.io/zone"


def near(key: str = ZONE, **labels: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def zones(gang: int = 1, **cpus: list[int]) -> GangScheduler:
    """Nodes of so many CPUs per zone, named a0, a1, b0, ..., and group g of so many minMembers."""
    made = GangScheduler(g=gang)
    for zone, sizes in cpus.items():
        for number, cpu in enumerate(sizes):
            node = make_node(f"{zone}{number}").allocatable(cpu=cpu).label(ZONE, zone)
            made.scheduler.put(node.obj(), made.now)
    return made


def together(name: str, cpu: int = 1, app: str = "g", needs: str = "g") -> PodBuilder:
    return member(name, cpu=cpu).label("app", app).spec(affinity=near(app=needs))


KEYS: list[tuple[str, list[PodBuilder], list[str]]] = [
    ("nobody needs anybody", [make_pod("a/p"), make_pod("a/q")], []),
    ("all are like each other", [together("p"), together("q")], [ZONE]),
    ("one needs another", [together("p", app="leader", needs="none"), together("q", needs="leader")], [ZONE]),
    ("one needs a stranger", [together("p", needs="stranger"), make_pod("a/q")], []),
    (
        "two keys",
        [together("p"), member("q").label("app", "g").spec(affinity=near("host", app="g"))],
        [ZONE, "host"],
    ),
]


@pytest.mark.parametrize(("pods", "expected"), [k[1:] for k in KEYS], ids=[k[0] for k in KEYS])
def test_keys_by_which_members_must_be_near_each_other(pods: list[PodBuilder], expected: list[str]) -> None:
    assert shared_topology_keys(GangScheduler([1]).state, [pod.obj() for pod in pods]) == expected


def test_one_start_for_each_domain_that_may_hold_enough() -> None:
    made = zones(a=[2, 2], b=[4], c=[1, 1, 1], d=[9])
    made.scheduler.put(make_node("nowhere").allocatable(cpu=9).obj(), made.now)
    made.put(make_pod("f/x").uid("x").requests(cpu=8).on("d0"))
    state = made.state
    slots = [
        slot
        for name in ("a1", "a0", "nowhere", "d0", "c0", "b0")
        if (slot := state.nodes.slot(name)) is not None
    ]

    def found(need: int, *sizes: int) -> list[str]:
        pods = [make_pod("a/p").requests(cpu=size).obj() for size in sizes]
        return [state.nodes.names[slot] for slot in first_slots(state, [ZONE], pods, need, slots)]

    assert found(1, 1) == ["a1", "d0", "c0", "b0"]
    assert found(3, 1) == ["a1", "c0", "b0"]
    assert found(4, 1, 2, 3) == ["a1", "b0"], "counted by the smallest"
    assert found(3, 2) == []


def test_no_more_domains_than_a_few() -> None:
    made = zones(**{name: [1] for name in "abcdefghijklm"})
    found = first_slots(made.state, [ZONE], [make_pod("a/p").requests(cpu=1).obj()], 1, range(12, -1, -1))
    assert found == list(range(12, 12 - MOST_DOMAINS, -1)), "those that come first"


@pytest.mark.parametrize("size", [3, 40])
def test_a_gang_that_must_be_in_one_zone_finds_the_one_that_holds_it(size: int) -> None:
    """Each for itself, the first member goes where most room is on one node."""
    made = zones(size, a=[size - 1], b=[1] * size, c=[size - 1])
    made.put(*(together(f"p{number:02}") for number in range(size)))
    found = placed(made.step())
    assert {node[0] for node in found.values()} == {"b"}
    assert len(found) == size


def test_workers_that_must_be_near_their_leader_take_it_along() -> None:
    made = zones(3, a=[4], b=[2, 2, 2])
    made.put(member("leader").label("app", "leader").requests(cpu=1))
    made.put(*(together(f"w{number}", 2, app="w", needs="leader") for number in range(2)))
    found = placed(made.step())
    assert {node[0] for node in found.values()} == {"b"}
    assert set(found) == {"leader", "w0", "w1"}


def test_where_no_zone_holds_the_gang_nothing_is_held() -> None:
    made = zones(3, a=[2], b=[2])
    made.put(*(together(f"p{number}") for number in range(3)))
    assert (placed(made.step()), made.state.placed) == ({}, {})
