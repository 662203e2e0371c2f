"""Gangs preempt, and are preempted, as a whole or not at all; their victims are enough and none too many."""

from __future__ import annotations

import itertools
import random
from typing import Any

from scheduler_core.engine.decisions import Evicted
from scheduler_core.engine.gang.preemption import blocks_of
from tests.support.builders import PodBuilder, make_budget, make_group, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed


def test_a_gang_evicts_for_all_of_its_members_at_once() -> None:
    gang = GangScheduler([2, 2], g=4)
    gang.put(
        *(make_pod(f"b/{n}{i}").uid(f"{n}{i}").requests(cpu=1).on(n) for n in ("n0", "n1") for i in "ab")
    )
    gang.put(*(member(f"p{i}").priority(10) for i in range(4)))
    decisions = gang.step()
    assert evicted(decisions) == {"n0a", "n0b", "n1a", "n1b"}
    nominated = [gang.state.nominations.get(f"p{i}") for i in range(4)]
    assert sorted(item.node for item in nominated if item is not None) == ["n0", "n0", "n1", "n1"]
    for victim in evicted(decisions):
        gang.scheduler.remove(gang.state.pods[victim], gang.now)
    assert set(placed(gang.step(later=20.0))) == {"p0", "p1", "p2", "p3"}


def test_a_gang_that_would_not_fit_after_evictions_evicts_no_pod() -> None:
    gang = GangScheduler([2, 2], g=4)
    gang.put(make_pod("b/low").uid("low").requests(cpu=2).on("n0"))
    gang.put(make_pod("b/peer").uid("peer").requests(cpu=2).priority(10).on("n1"))
    gang.put(*(member(f"p{i}").priority(10) for i in range(4)))
    assert evicted(gang.step()) == set()
    assert gang.state.nominations.get("p0") is None


def test_unequal_members_that_do_not_all_fit_evict_no_pod() -> None:
    gang = GangScheduler([2], g=2)
    gang.put(make_pod("b/low").uid("low").requests(cpu=2).on("n0"))
    gang.put(member("p0").priority(10), member("p1", cpu=2).priority(10))
    before = gang.state.nodes.requested.copy()
    assert evicted(gang.step()) == set()
    assert (gang.state.nodes.requested == before).all()


def test_one_member_that_never_preempts_keeps_the_gang_from_it() -> None:
    gang = GangScheduler([2], g=2)
    gang.put(make_pod("b/low").uid("low").requests(cpu=2).on("n0"))
    gang.put(member("p0").priority(10), member("p1").priority(10).never())
    assert evicted(gang.step()) == set()


def test_no_more_is_evicted_than_the_minimum_needs() -> None:
    gang = GangScheduler([3], g=2)
    gang.put(*(make_pod(f"b/low{i}").uid(f"low{i}").requests(cpu=1).on("n0") for i in range(3)))
    gang.put(*(member(f"p{i}").priority(10) for i in range(3)))
    assert len(evicted(gang.step())) == 2


def test_a_gang_with_members_to_spare_evicts_for_the_most_important_ones() -> None:
    gang = GangScheduler([2], g=1)
    gang.put(make_pod("b/low").uid("low").requests(cpu=2).on("n0"))
    gang.put(member("small").priority(10), member("large", cpu=2).priority(5))
    assert evicted(gang.step()) == {"low"}
    nominated = {pod.uid: gang.state.nominations.node_of(pod.uid) for pod in gang.state.pods.values()}
    assert (nominated["small"], nominated["large"]) == ("n0", "")


def test_a_victim_of_a_gang_is_told_of_it_and_a_victim_of_a_spare_member_is_not() -> None:
    gang = GangScheduler([1, 1], g=1)
    gang.put(*(make_pod(f"b/{n}").uid(n).requests(cpu=1).on(n) for n in ("n0", "n1")))
    gang.put(member("p0").priority(10))
    (told,) = [item.message for item in gang.step() if isinstance(item, Evicted)]
    assert told.startswith("preempted by a/p0 of PodGroup a/g (priority 10) for node ")
    gang.put(member("o").on("n0"))
    gang.scheduler.remove(gang.state.pods["p0"], gang.now)
    gang.put(member("p1").priority(9))
    alone = [item.message for item in gang.step(30.0) if isinstance(item, Evicted)]
    assert all(text.startswith("preempted by a/p1 (priority 9)") for text in alone)
    assert alone


def test_no_pod_is_evicted_for_a_member_that_does_not_start() -> None:
    """Two small members would fit where old ran, but only the large one is more important than old."""
    gang = GangScheduler([2], g=2)
    gang.put(make_pod("b/old").uid("old").requests(cpu=2).on("n0"))
    gang.put(member("large", cpu=2).priority(10), member("small0"), member("small1"))
    assert evicted(gang.step()) == set()
    gang.put(make_node("n1").allocatable(cpu=1))
    assert evicted(gang.step(30.0)) == {"old"}, "the large one starts with a small one"


def test_a_gang_beyond_its_quota_evicts_no_pod() -> None:
    gang = GangScheduler([4], g=3)
    gang.scheduler.put(make_quota("a/q").uid("q").min(cpu=2).max(cpu=2).obj(), gang.now)
    gang.put(*(make_pod(f"a/low{i}").uid(f"low{i}").requests(cpu=1).on("n0") for i in range(2)))
    gang.put(*(member(f"p{i}").priority(10) for i in range(3)))
    assert evicted(gang.step()) == set()


def test_a_victim_gang_at_its_minimum_goes_whole() -> None:
    gang = GangScheduler([1, 1], v=2)
    gang.put(member("v0", "v").on("n0"), member("v1", "v").on("n1"))
    gang.put(make_pod("b/high").uid("high").requests(cpu=1).priority(10))
    assert evicted(gang.step()) == {"v0", "v1"}


def test_a_victim_gang_above_its_minimum_loses_single_members() -> None:
    gang = GangScheduler([1, 1, 1], v=2)
    gang.put(*(member(f"v{i}", "v").on(f"n{i}") for i in range(3)))
    gang.put(make_pod("b/high").uid("high").requests(cpu=1).priority(10))
    assert len(evicted(gang.step())) == 1


def test_a_single_pod_goes_rather_than_a_whole_gang() -> None:
    gang = GangScheduler([1, 1, 1], v=2)
    gang.put(member("v0", "v").on("n0"), member("v1", "v").on("n1"))
    gang.put(make_pod("b/single").uid("single").requests(cpu=1).on("n2"))
    gang.put(make_pod("b/high").uid("high").requests(cpu=1).priority(10))
    assert evicted(gang.step()) == {"single"}


def test_a_gang_keeps_its_nodes_while_others_than_its_victims_leave() -> None:
    """Its victim on n0 is gone, somebody on n1 still leaves; one member is only as important as who waits."""
    gang = GangScheduler([2, 2], g=4)
    gang.put(make_pod("b/goes").uid("goes").requests(cpu=2).on("n1").deleting(gang.now))
    gang.put(make_pod("b/waits").uid("waits").requests(cpu=2).created(-1).nominated("n1"))
    gang.put(make_pod("b/low").uid("low").requests(cpu=2).on("n0"))
    gang.put(*(member(f"p{i}").priority(5 if i else 0) for i in range(4)))
    assert evicted(gang.step()) == {"low"}
    nodes = {f"p{i}": gang.state.nominations.node_of(f"p{i}") for i in range(4)}
    assert nodes["p0"] == "n0"
    assert sorted(nodes.values()) == ["n0", "n0", "n1", "n1"]
    gang.scheduler.remove(gang.state.pods["low"], gang.now)
    assert evicted(gang.step(later=20.0)) == set()
    assert {f"p{i}": gang.state.nominations.node_of(f"p{i}") for i in range(4)} == nodes


def test_members_that_may_evict_leave_the_free_room_to_those_that_may_not() -> None:
    gang = GangScheduler([2, 1], g=3)
    gang.put(make_pod("b/low").uid("low").requests(cpu=1).on("n1"))
    gang.put(*(member(f"p{i}").priority(10 if i < 2 else 0) for i in range(3)))
    assert evicted(gang.step()) == {"low"}


def test_members_that_may_go_elsewhere_leave_the_free_room_to_those_that_may_not() -> None:
    gang = GangScheduler([1, 1], g=2)
    gang.put(make_pod("b/low").uid("low").requests(cpu=1).on("n1"))
    bound = member("p1").priority(10).selector(**{"kubernetes.io/hostname": "n0"})
    gang.put(member("p0").priority(10), bound)
    assert evicted(gang.step()) == {"low"}
    assert gang.state.nominations.node_of("p0") == "n1"


def test_a_gang_that_cannot_start_with_the_best_victims_looks_for_others() -> None:
    """x is the cheapest victim, but beside it is memory for one member only, and then a borrows no more."""
    gang = GangScheduler()
    for name, cpu, memory in (("n0", 4, 2), ("n1", 2, 9)):
        gang.scheduler.put(make_node(name).allocatable(cpu=cpu, memory=memory).obj(), gang.now)
    gang.scheduler.put(make_quota("a/q").min(cpu=2).obj(), gang.now)
    gang.scheduler.put(make_quota("b/q").min(cpu=4).obj(), gang.now)
    gang.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), gang.now)
    for name, node, priority in (("x", "n0", 0), ("y", "n1", 5), ("z", "n0", 5)):
        gang.put(make_pod(f"b/{name}").uid(name).requests(cpu=2).priority(priority).on(node))
    gang.put(*(make_pod(f"a/{name}").uid(name).group("g").requests(cpu=1, memory=2) for name in "pq"))
    assert evicted(gang.step()) == {"y"}
    assert {gang.state.nominations.node_of(name) for name in "pq"} == {"n1"}


def test_room_that_a_gang_evicted_for_has_the_priority_of_its_most_important_member() -> None:
    gang = GangScheduler([4], g=2)
    gang.put(*(make_pod(f"b/{name}").uid(name).requests(cpu=2).priority(0).on("n0") for name in "vw"))
    gang.put(member("p", cpu=2).priority(5), member("q", cpu=2).priority(1))
    assert evicted(gang.step()) == {"v", "w"}
    gang.put(make_pod("c/s").uid("s").requests(cpu=2).priority(3))
    gang.step()
    assert gang.state.nominations.node_of("s") == ""
    for name in "vw":
        gang.scheduler.remove(gang.state.pods[name], gang.now)
    assert set(placed(gang.step(later=20.0))) == {"p", "q"}


def runs(
    name: str, node: str = "n0", cpu: int = 1, priority: int = 0, start: int = 1, **labels: Any
) -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority).started(start).on(node)
    return made.labels(**labels)


def asking(made: GangScheduler, number: int, cpu: int = 1) -> None:
    made.put(*(member(f"m{index}", cpu=cpu).priority(5) for index in range(number)))


def seated(free: list[int], members: int, cpu: int) -> bool:
    return sum(room // cpu for room in free) >= members


@every_seed(range(25))
def test_victims_are_enough_and_none_of_them_can_be_spared(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(2, 5) for _ in range(rng.randint(1, 3))]
    number, cpu = rng.randint(1, 4), rng.randint(1, 2)
    made = GangScheduler(sizes, g=number)
    free, pods = list(sizes), {}
    for index in range(rng.randint(2, 8)):
        slot, size = rng.randrange(len(sizes)), rng.randint(1, 2)
        if free[slot] >= size:
            free[slot] -= size
            priority = rng.choice((0, 1, 9))
            pods[f"v{index}"] = (slot, size, priority)
            made.put(runs(f"v{index}", f"n{slot}", size, priority, rng.randint(1, 9)))
    asking(made, number, cpu)
    decisions = made.step()
    victims = evicted(decisions)

    def without(gone: set[str]) -> list[int]:
        return [room + sum(pods[v][1] for v in gone if pods[v][0] == slot) for slot, room in enumerate(free)]

    every = {name for name, (_, _, priority) in pods.items() if priority < 5}
    if seated(free, number, cpu):
        assert (len(placed(decisions)), victims) == (number, set())
        return
    assert bool(victims) is seated(without(every), number, cpu)
    assert victims <= every
    if victims:
        assert seated(without(victims), number, cpu)
        spared = [victims - {name} for name in victims]
        assert not any(seated(without(rest), number, cpu) for rest in spared)
        nominated = [made.state.nominations.node_of(f"m{index}") for index in range(number)]
        room = without(victims)
        for node in nominated:
            room[int(node.removeprefix("n"))] -= cpu
        assert min(room) >= 0


def test_protected_pods_are_given_back_first_then_the_most_important() -> None:
    made = GangScheduler([9])
    made.scheduler.put(make_budget("a/safe").selects(app="safe").allows(0).obj(), made.now)
    made.scheduler.put(make_group("a/v").needs(2).obj(), made.now)
    made.put(
        runs("low", start=9),
        runs("old", start=1),
        runs("high", priority=3),
        runs("safe", app="safe", start=5),
        runs("g0").group("v"),
        runs("g1", priority=1).group("v"),
    )
    victims = [made.state.pods[name] for name in ("low", "old", "high", "safe", "g0", "g1")]
    assert [[pod.name for pod in block] for block in blocks_of(made.state, victims)] == [
        ["safe"], ["high"], ["g1", "g0"], ["old"], ["low"],
    ]  # fmt: skip
    spare = [made.state.pods[name] for name in ("g0", "low")]
    made.put(runs("g2").group("v"))
    assert sorted(pod.name for block in blocks_of(made.state, spare) for pod in block) == ["g0", "low"]
    assert all(len(block) == 1 for block in blocks_of(made.state, spare)), "one of three may go alone"


def test_each_victim_is_told_for_whom_it_goes() -> None:
    made = GangScheduler([2], g=2)
    made.put(runs("v0"), runs("v1"))
    asking(made, 2)
    decisions = [item for item in made.step() if hasattr(item, "preemptor")]
    assert {item.pod.name for item in decisions} == {"v0", "v1"}
    assert all("for node n0" in item.message for item in decisions)
    assert {item.preemptor.name for item in decisions} <= {"m0", "m1"}


def test_a_gang_waits_for_pods_that_leave_already() -> None:
    made = GangScheduler([2], g=2)
    made.put(runs("v0").deleting(5.0), runs("v1").deleting(5.0))
    asking(made, 2)
    decisions = made.step()
    assert (evicted(decisions), placed(decisions)) == (set(), {})
    for name in ("v0", "v1"):
        made.scheduler.remove(made.state.pods[name], made.now)
    assert set(placed(made.step(30.0))) == {"m0", "m1"}


def test_all_pairs_of_sizes_leave_no_gang_half_started() -> None:
    for size, number in itertools.product((1, 2, 3), (1, 2, 3)):
        made = GangScheduler([size], g=number)
        asking(made, number)
        assert len(placed(made.step())) in (0, number)
