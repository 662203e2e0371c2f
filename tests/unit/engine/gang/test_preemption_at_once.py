"""Victims for a gang as a whole, where its members one by one find none, or not all of them."""

from __future__ import annotations

import pytest

from scheduler_core.engine.gang import preemption
from tests.support.builders import PodBuilder, make_budget, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member


def runs(key: str, cpu: int, node: str = "n0", priority: int = 0, **labels: str) -> PodBuilder:
    made = make_pod(key).uid(key.rpartition("/")[2]).requests(cpu=cpu).priority(priority)
    return made.on(node).started(1).labels(**labels)


def mixed(priorities: tuple[int, ...]) -> list[PodBuilder]:
    return [member(f"p{i}").priority(priority) for i, priority in enumerate(priorities)]


# A node of 3 CPUs, and a gang of two members of 1 CPU of which only the first may evict.
STORIES: dict[str, tuple[list[PodBuilder], set[str]]] = {
    "the larger one goes where only that makes room for both": (
        [runs("b/small", 1), runs("b/large", 2)],
        {"large"},
    ),
    "two small ones go where there is no larger one": (
        [runs("b/x", 1), runs("b/y", 1), runs("b/stays", 1, priority=9)],
        {"x", "y"},
    ),
    "nobody goes where all of them would not be enough": (
        [runs("b/small", 1), runs("b/stays", 2, priority=9)],
        set(),
    ),
}


@pytest.mark.parametrize(("running", "victims"), STORIES.values(), ids=STORIES)
def test_one_member_evicts_for_those_that_may_not(running: list[PodBuilder], victims: set[str]) -> None:
    made = GangScheduler([3], g=2)
    made.put(*running, *mixed((5, 0)))
    assert evicted(made.step()) == victims


def test_the_protected_one_is_spared_where_others_are_enough() -> None:
    made = GangScheduler([4], g=2)
    made.scheduler.put(make_budget("b/budget").selects(app="safe").allows(0).obj(), made.now)
    made.put(runs("b/safe", 2, app="safe"), runs("b/x", 1), runs("b/y", 1))
    made.put(*mixed((5, 0)))
    assert evicted(made.step()) == {"x", "y"}


def test_no_pod_more_important_than_the_member_is_evicted_for_it() -> None:
    """Another pod like the victim waits, and would be given its room."""
    made = GangScheduler([2], g=2)
    made.put(runs("b/x", 2, priority=3), make_pod("b/y").uid("y").requests(cpu=2).priority(3))
    made.put(member("p0", cpu=0).priority(5), member("p1", cpu=2))
    assert evicted(made.step()) == set()


def test_a_gang_that_is_torn_goes_as_a_whole_and_spares_others() -> None:
    """The gang v is at its minimum on n0; without it nobody else need go."""
    made = GangScheduler([3], g=2, v=2)
    made.put(runs("b/small", 1), *(member(f"v{i}", "v").on("n0").started(1) for i in range(2)))
    made.put(*mixed((5, 0)))
    assert evicted(made.step()) == {"v0", "v1"}


def test_a_gang_above_its_minimum_loses_a_single_member() -> None:
    made = GangScheduler([3], g=2, v=1)
    made.put(runs("b/small", 1), *(member(f"v{i}", "v").on("n0").started(1) for i in range(2)))
    made.put(*mixed((5, 0)))
    victims = evicted(made.step())
    assert victims in ({"small", "v0"}, {"small", "v1"})


def test_a_gang_with_a_more_important_member_is_not_evicted() -> None:
    made = GangScheduler([3], g=2, v=2)
    made.put(member("v0", "v").on("n0"), member("v1", "v", 2).on("n0").priority(9), *mixed((5, 0)))
    assert evicted(made.step()) == set()


def test_reclaims_stay_within_the_loans() -> None:
    """b borrows 2 CPUs of the 3 that it uses; both members stay within the min of a together."""
    made = GangScheduler([4], g=2)
    for key, cpu in (("a/q", 2), ("b/q", 1), ("c/q", 1)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=cpu).obj(), made.now)
    made.put(runs("b/x", 2), runs("b/y", 1), runs("c/own", 1), *mixed((5, 0)))
    assert evicted(made.step()) == {"x"}


def test_with_too_many_candidates_no_search_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "MOST_CANDIDATES", 1)
    made = GangScheduler([3], g=2)
    made.put(runs("b/small", 1), runs("b/large", 2), *mixed((5, 0)))
    assert evicted(made.step()) == set()


def test_a_gang_takes_other_victims_where_the_first_must_not_go() -> None:
    """Half of the gang is within min, so it takes no more than is borrowed: not the pair."""
    made = GangScheduler()
    for name, low in (("a", 3), ("b", 4), ("c", 4)):
        made.scheduler.put(make_quota(f"{name}/q").min(cpu=low).obj(), made.now)
    for name, size in (("n0", 6), ("n1", 6), ("n2", 3)):
        made.scheduler.put(make_node(name).allocatable(cpu=size).obj(), made.now)
    for name in ("a/work", "b/pair"):
        made.scheduler.put(make_group(name).uid(name).needs(2).obj(), made.now)
    made.put(
        make_pod("b/x0").uid("x0").requests(cpu=3).group("pair").on("n1"),
        make_pod("b/x1").uid("x1").requests(cpu=2).group("pair").on("n0"),
        make_pod("b/single").uid("single").requests(cpu=2).priority(1).on("n2"),
        make_pod("c/other").uid("other").requests(cpu=2).on("n0"),
    )
    made.put(*(make_pod(f"a/w{i}").uid(f"w{i}").requests(cpu=2).priority(1).group("work") for i in range(2)))
    assert evicted(made.step()) == {"single"}
