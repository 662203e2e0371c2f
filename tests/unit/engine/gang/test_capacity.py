"""How much of a gang could start at most, and in which words what is missing is told."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.gang.capacity import CapacityLimit, beyond_quota, capacity_limit
from scheduler_core.engine.gang.members import Members, equal_members
from scheduler_core.engine.gang.plan import ending_on, kept_of, plan_by_ends, plan_on_empty
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member


def members(made: GangScheduler, *pods: PodBuilder) -> Members:
    parsed = [pod.obj() for pod in pods]
    return [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in parsed]


def room(made: GangScheduler, pod: PodBuilder, **more: Any) -> CapacityLimit:
    ((profile, parsed),) = members(made, pod)
    return capacity_limit(made.scheduler.cycle, profile, parsed, made.now, **more)


def runs(
    name: str, node: str = "n0", cpu: int = 1, lasts: int = 0, start: float = 0.0, **more: Any
) -> PodBuilder:
    made = (
        make_pod(f"{more.pop('namespace', 'f')}/{name}").uid(name).requests(cpu=cpu).on(node).started(start)
    )
    made.priority(more.pop("priority", 0))
    return made.spec(activeDeadlineSeconds=lasts) if lasts else made


@pytest.mark.parametrize(
    ("found", "need", "words"),
    [
        pytest.param(
            CapacityLimit(3, 4, "nvidia.com/gpu", 8),
            5,
            "2 pods short: each needs 8 nvidia.com/gpu; 4 nodes have this resource",
            id="several pods and nodes",
        ),
        pytest.param(
            CapacityLimit(4, 1, "cpu", 1500),
            5,
            "1 pod short: it needs 1500m cpu; one node has this resource",
            id="one pod and one node",
        ),
        pytest.param(
            CapacityLimit(3, 2, "pods", 1),
            4,
            "1 pod short: 2 nodes reached the limit of pods",
            id="too many pods",
        ),
        pytest.param(CapacityLimit(0, 0, "cpu", 1), 5, "no node with cpu is open to them", id="no node"),
    ],
)
def test_what_is_missing_in_words(found: CapacityLimit, need: int, words: str) -> None:
    assert found.lack(need) == words


def test_room_is_whole_pods_node_by_node() -> None:
    made = GangScheduler([5, 3, 1])
    made.put(runs("x", "n0", 2))
    assert room(made, member("m", cpu=2)) == CapacityLimit(2, 3, "cpu", 2000)
    assert room(made, member("m", cpu=1)).fits == 7
    assert room(made, member("m", cpu=6)).fits == 0


def test_room_counts_open_nodes_alone() -> None:
    made = GangScheduler([4])
    made.scheduler.put(make_node("n1").allocatable(cpu=4).taint("t").obj(), made.now)
    made.scheduler.put(make_node("n2").allocatable(cpu=4, gpu=1).labels(disk="ssd").obj(), made.now)
    assert room(made, member("m", cpu=2)).fits == 4
    assert room(made, member("m", cpu=2).selector(disk="ssd")).fits == 2
    scarce = room(made, member("m").requests(cpu=1, gpu=1))
    assert (scarce.fits, scarce.nodes, scarce.scarce) == (1, 1, "nvidia.com/gpu")


def test_pods_on_their_way_out_make_room_and_with_evictions_those_that_could_go() -> None:
    made = GangScheduler([4])
    made.put(runs("x", cpu=1).deleting(1.0), runs("y", cpu=1), runs("z", cpu=1, priority=9))
    asking = member("m").priority(5)
    assert room(made, asking).fits == 2
    assert room(made, asking, evicting=True).fits == 3


def test_members_are_equal_where_no_filter_tells_them_apart() -> None:
    made = GangScheduler([4])
    assert equal_members(made.state, members(made, member("a"), member("b")))
    assert not equal_members(made.state, members(made, member("a"), member("b", cpu=2)))


# Quota

QUOTAS: list[tuple[str, int, int, list[int], int, str]] = [
    ("within both", 9, 9, [2, 2], 2, ""),
    ("exactly the max", 9, 4, [2, 2], 2, ""),
    ("beyond the max", 9, 3, [2, 2], 2, "spec.max[cpu]=3"),
    ("beyond the sum of min", 3, 9, [2, 2], 2, "sum(min)[cpu]=3"),
    ("the smallest are enough", 9, 3, [9, 1, 2], 2, ""),
    ("the smallest are too much", 9, 2, [9, 1, 2], 2, "spec.max[cpu]=2"),
]


@pytest.mark.parametrize(
    ("low", "high", "cpus", "need", "words"), [q[1:] for q in QUOTAS], ids=[q[0] for q in QUOTAS]
)
def test_a_gang_beyond_its_quota(low: int, high: int, cpus: list[int], need: int, words: str) -> None:
    made = GangScheduler([9])
    made.scheduler.put(make_quota("a/q").min(cpu=low).max(cpu=high).obj(), made.now)
    found = members(made, *(member(f"m{number}", cpu=cpu) for number, cpu in enumerate(cpus)))
    said = beyond_quota(made.state, found, need)
    assert words in said
    assert bool(said) is bool(words)


def test_use_of_others_counts_against_the_quota_in_requested_resources() -> None:
    made = GangScheduler([9])
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    found = members(made, member("a", cpu=2), member("b", cpu=2))
    assert beyond_quota(made.state, found, 2) == ""
    assert "spec.max[cpu]=4" in beyond_quota(made.state, found, 2, {"cpu": 1000})
    assert "sum(min)[cpu]=4" in beyond_quota(made.state, found, 2, {}, {"cpu": 1000})
    assert beyond_quota(GangScheduler([9]).state, found, 2) == "", "no quota"


# Plans


def seats(plan: Any) -> list[tuple[str, int]] | None:
    return None if plan is None else [(seat.pod.name, seat.slot) for seat in plan.members]


def test_a_plan_for_empty_nodes_takes_those_with_most_room() -> None:
    made = GangScheduler([4, 4, 2])
    made.put(runs("x", "n0", 3))
    cycle, now = made.scheduler.cycle, made.now
    found = members(made, *(member(f"m{number}", cpu=2) for number in range(6)))
    assert seats(plan_on_empty(cycle, found, 2, now)) == [("m0", 1), ("m1", 1)]
    assert seats(plan_on_empty(cycle, found, 5, now)) is not None
    assert seats(plan_on_empty(cycle, found, 6, now)) is None
    plan = plan_on_empty(cycle, found[:1], 1, now)
    assert plan is not None
    assert plan.start == 0.0


def test_room_that_others_evicted_for_is_theirs_and_kept_nodes_are_not() -> None:
    made = GangScheduler([2, 1])
    made.put(make_pod("f/w").uid("w").requests(cpu=2))
    waiting = made.state.pods["w"]
    found = members(made, member("m0", cpu=2))
    for kept in (True, False):
        made.state.nominations.put(waiting, "n0", made.state.vector(waiting), kept=kept)
        assert seats(plan_on_empty(made.scheduler.cycle, found, 1, made.now)) == (
            [("m0", 0)] if kept else None
        )


def test_the_earliest_moment_at_which_enough_pods_must_have_ended() -> None:
    made = GangScheduler([2, 2, 2])
    for number, end in enumerate((300, 100, 200)):
        made.put(runs(f"x{number}", f"n{number}", 2, end, made.now))
    cycle, now = made.scheduler.cycle, made.now
    found = members(made, member("m0", cpu=2), member("m1", cpu=2), member("m2", cpu=2))
    for need, start, slots in ((1, 100, [1]), (2, 200, [1, 2]), (3, 300, [0, 1, 2])):
        plan = plan_by_ends(cycle, found, need, now)
        assert plan is not None
        assert (plan.start, sorted(seat.slot for seat in plan.members)) == (now + start, slots)
    assert list(ending_on(made.state, 1, now + 100)) == ["x1"]
    assert list(ending_on(made.state, 1, now + 99)) == []


def test_without_ends_that_make_room_there_is_no_plan() -> None:
    made = GangScheduler([2])
    found = members(made, member("m0", cpu=2))
    assert plan_by_ends(made.scheduler.cycle, found, 1, made.now) is None, "nothing ends"
    made.put(runs("x", cpu=1), runs("y", cpu=1, lasts=50, start=made.now))
    assert plan_by_ends(made.scheduler.cycle, found, 1, made.now) is None, "x stays"
    made.put(runs("x", cpu=1).deleting(5.0))
    plan = plan_by_ends(made.scheduler.cycle, found, 1, made.now)
    assert plan is not None
    assert (plan.start, set(ending_on(made.state, 0, plan.start))) == (made.now + 50, {"y"})


def test_a_plan_waits_for_its_quota_too() -> None:
    made = GangScheduler([9])
    made.scheduler.put(make_quota("a/q").min(cpu=2).max(cpu=2).obj(), made.now)
    made.put(
        runs("a1", cpu=2, lasts=70, start=made.now, namespace="a"), runs("x", cpu=8, lasts=30, start=made.now)
    )
    plan = plan_by_ends(made.scheduler.cycle, members(made, member("m0", cpu=2)), 1, made.now)
    assert plan is not None
    assert plan.start == made.now + 70


def test_room_of_ending_pods_is_not_kept_a_second_time() -> None:
    made = GangScheduler([4])
    plan = plan_on_empty(
        made.scheduler.cycle, members(made, member("a", cpu=2), member("b", cpu=2)), 2, made.now
    )
    assert plan is not None
    ending = made.state.vector(make_pod("f/x").requests(cpu=3).obj())
    kept = kept_of(plan.members, [ending], len(made.state.index))
    assert [int(vector[0]) for vector in kept] == [0, 1000]
    assert [int(vector[3]) for vector in kept] == [0, 1], "one place of a pod is free, too"
    assert [int(vector[0]) for vector in kept_of(plan.members, [], len(made.state.index))] == [2000, 2000]
