"""A small gang starts exactly where some way to seat its members exists, whatever they ask for."""

from __future__ import annotations

import itertools
import random

import pytest

from scheduler_core.engine.gang_search import largest_share
from tests.support.builders import PodBuilder, make_group, make_node, make_pod
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


@pytest.mark.parametrize("seed", range(60))
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
