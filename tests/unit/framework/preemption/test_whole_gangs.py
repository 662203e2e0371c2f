"""A reclaim takes gangs that go as a whole also where their members, one by one, give nothing back."""

from __future__ import annotations

import pytest

from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted

# (cpu, memory) by pod of b; g and apart are gangs. b has a min of 1 CPU, borrows CPUs, and no min names
# memory. a asks for 4 CPUs and 3 of memory, and is guaranteed 5 CPUs.
LENT = {"r1": (3, 0), "g-2": (2, 1), "g-4": (0, 1), "g-5": (0, 1)}
APART = {"apart-1": (0, 1), "apart-2": (0, 1)}
CASES = [
    pytest.param(3, 3, LENT, {"r1", "g-2", "g-4", "g-5"}, id="members with memory alone go with their gang"),
    pytest.param(1, 4, LENT, set(), id="members stay without whom their gang could go on"),
    pytest.param(
        3,
        3,
        {**LENT, "r1": (5, 0), "g-2": (0, 1)},
        set(),
        id="a gang stays of which no member uses what its quota borrows",
    ),
    pytest.param(
        3,
        5,
        {**APART, "g-0": (0, 1), "g-2": (3, 0), "g-5": (3, 0)},
        {"g-0", "g-2", "g-5"},
        id="a gang that gives something back goes before one that does not",
    ),
]


def world(quorum: int, memory: int, running: dict[str, tuple[int, int]]) -> GangScheduler:
    made = GangScheduler()
    made.scheduler.put(make_node("n0").allocatable(cpu=7, memory=memory).obj(), made.now)
    for quota in (make_quota("a/q").min(cpu=5), make_quota("b/q").min(cpu=1)):
        made.scheduler.put(quota.obj(), made.now)
    for name, needs in (("b/g", quorum), ("b/apart", 2), ("a/h", 2)):
        made.scheduler.put(make_group(name).uid(name).needs(needs).obj(), made.now)
    for name, (cpu, memory) in running.items():
        pod = make_pod(f"b/{name}").uid(name).requests(cpu=cpu, memory=memory).on("n0")
        gang, _, member = name.partition("-")
        made.put(pod.group(gang) if member else pod)
    return made


@pytest.mark.parametrize(("quorum", "memory", "running", "go"), CASES)
def test_a_gang_that_goes_as_a_whole_counts_as_one_victim_of_a_pod(
    quorum: int, memory: int, running: dict[str, tuple[int, int]], go: set[str]
) -> None:
    made = world(quorum, memory, running)
    made.put(make_pod("a/p").uid("p").requests(cpu=4, memory=3))
    assert {name.split("/")[-1] for name in evicted(made.step())} == go


@pytest.mark.parametrize(("quorum", "memory", "running", "go"), CASES)
def test_a_gang_that_goes_as_a_whole_counts_as_one_victim_of_a_gang(
    quorum: int, memory: int, running: dict[str, tuple[int, int]], go: set[str]
) -> None:
    made = world(quorum, memory, running)
    made.put(
        make_pod("a/p").uid("p").requests(cpu=2, memory=2).group("h"),
        make_pod("a/q").uid("q").requests(cpu=2, memory=1).group("h"),
    )
    assert {name.split("/")[-1] for name in evicted(made.step())} == go
