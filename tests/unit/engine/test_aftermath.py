"""What decisions mean for those who wait: who is told of evictions, and who lost his place."""

from __future__ import annotations

import pytest

from scheduler_core.engine.aftermath import nodes_given, placements, surplus
from scheduler_core.engine.decisions import Evicted
from scheduler_core.state.events import Happened
from tests.support.builders import PodBuilder, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed


def runs(key: str, cpu: int, node: str = "n0", priority: int = 0) -> PodBuilder:
    made = make_pod(key).uid(key.rpartition("/")[2]).requests(cpu=cpu).priority(priority)
    return made.on(node).started(1)


def asks(key: str, cpu: int, priority: int = 0) -> PodBuilder:
    return make_pod(key).uid(key.rpartition("/")[2]).requests(cpu=cpu).priority(priority)


def with_port(made: PodBuilder) -> PodBuilder:
    (container,) = made.raw["spec"]["containers"]
    return made.containers({**container, "ports": [{"containerPort": 80, "hostPort": 80}]})


# Who runs on n0 (4 CPUs) and n1 (2 CPUs), what a pod of priority 9 asks for, and whether others are told.
EVICTIONS: dict[str, tuple[list[PodBuilder], int, bool]] = {
    "all that leaves is taken": ([runs("f/x", 2), runs("f/stays", 2, priority=9)], 2, False),
    "more leaves than is taken": ([runs("f/x", 3), runs("f/stays", 1, priority=9)], 2, True),
    "what was free is taken, too": ([runs("f/x", 1), runs("f/stays", 2, priority=9)], 2, False),
    "a port comes free": ([with_port(runs("f/x", 2)), runs("f/stays", 2, priority=9)], 2, True),
}


@pytest.mark.parametrize(("running", "cpu", "told"), EVICTIONS.values(), ids=EVICTIONS)
def test_others_are_told_of_what_victims_leave_over(running: list[PodBuilder], cpu: int, told: bool) -> None:
    made = GangScheduler([4, 2])
    made.put(*running, runs("f/full", 2, "n1", priority=9), asks("f/p", cpu, 9))
    decisions = made.step()
    assert evicted(decisions) == {"x"}
    assert [(event.what, event.pod.name) for event in surplus(made.state, decisions) if event.pod] == (
        [(Happened.POD_LEAVING, "x")] if told else []
    )


@pytest.mark.parametrize(("low", "told"), [(2, False), (3, True)])
def test_others_are_told_where_a_quota_of_victims_falls_below_its_min(low: int, told: bool) -> None:
    """b uses 2 beside its victim of 2 CPUs."""
    made = GangScheduler([6])
    for key, cpu in (("a/q", 2), ("b/q", low), ("c/q", 3 - low)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=cpu).obj(), made.now)
    made.put(runs("b/x", 2), runs("b/stays", 2, priority=9), asks("a/p", 2))
    decisions = made.step()
    assert evicted(decisions) == {"x"}
    assert bool(surplus(made.state, decisions)) == told


def test_without_evictions_nobody_is_told_of_any() -> None:
    made = GangScheduler([4])
    made.put(asks("f/p", 2))
    decisions = made.step()
    assert surplus(made.state, decisions) == []
    assert nodes_given(decisions) == {"n0"}
    assert [event.pod.name for event in placements(decisions) if event.pod] == ["p"]


def test_who_lacked_more_than_it_could_evict_evicts_beside_the_victims_of_others() -> None:
    """c/p lacks 2 CPUs and may evict one; a/q evicts three for the two that it needs."""
    made = GangScheduler([4])
    for key, cpu in (("a/q", 2), ("c/q", 0), ("d/q", 2)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=cpu).obj(), made.now)
    made.put(runs("c/big", 3, priority=9), runs("c/low", 1), asks("c/p", 2, 5))
    assert evicted(made.step()) == set()
    made.put(asks("a/q", 2))
    victims = [(item.preemptor.name, item.pod.name) for item in made.step() if isinstance(item, Evicted)]
    assert victims == [("q", "big")]
    victims = [(item.preemptor.name, item.pod.name) for item in made.step(20.0) if isinstance(item, Evicted)]
    assert victims == [("p", "low")]


def test_a_pod_that_is_placed_with_a_better_right_lets_those_look_anew_who_waited_for_the_quota() -> None:
    """c/p waits for b/goes to end; b/own stays within the min of b and takes what that leaves of quota."""
    made = GangScheduler([6, 2])
    for key, cpu in (("a/q", 3), ("b/q", 1), ("c/q", 2)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=cpu).obj(), made.now)
    made.put(runs("c/low", 2, "n1"), runs("a/x", 1), runs("a/y", 1), runs("b/goes", 1).deleting(made.now))
    made.put(asks("c/p", 2, 5))
    assert evicted(made.step()) == set()
    assert made.state.nominations.node_of("p") == "n0"
    made.put(asks("b/own", 1))
    decisions = made.step()
    assert set(placed(decisions)) == {"own"}
    assert evicted(made.step(20.0)) | evicted(decisions) == {"low"}


def test_who_evicts_again_takes_nothing_that_it_had_not_taken_before() -> None:
    made = GangScheduler([4, 2])
    made.put(runs("f/x", 2), runs("f/stays", 2, priority=9), runs("f/full", 2, "n1", priority=9))
    made.put(asks("f/p", 2, 9))
    decisions = made.step()
    assert evicted(decisions) == {"x"}
    assert surplus(made.state, decisions) == []
    assert [event.pod.name for event in surplus(made.state, decisions, {"p"}) if event.pod] == ["x"]
