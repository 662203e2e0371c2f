"""In which orders a search tries members, how far it looks, and what it leaves behind."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.search import MOST_MEMBERS, MOST_STEPS, GangSearch
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.status import unschedulable
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, placed

HOST = "kubernetes.io/hostname"


def near(**labels: str) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def pairs(made: GangScheduler, *pods: PodBuilder) -> Members:
    return [(made.scheduler.profiles[pod.obj().scheduler_name], pod.obj()) for pod in pods]


def search(made: GangScheduler, need: int, *pods: PodBuilder) -> dict[str, str] | None:
    found = GangSearch(made.scheduler.cycle, pairs(made, *pods), need, made.now).run()
    if found is None:
        assert made.state.placed.keys() <= {"x"}, "nothing is held"
        return None
    return {item.cycle.pod.name: made.state.nodes.names[item.slot] for _, item in found}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the members for which all nodes are looked at."""
    found: list[str] = []
    original = PodCycle.feasible

    def feasible(self: Any, profile: Any, pod: Any, now: float) -> Any:
        found.append(pod.name)
        return original(self, profile, pod, now)

    monkeypatch.setattr(PodCycle, "feasible", feasible)
    return found


# Orders


@pytest.mark.parametrize("names", list(itertools.permutations("abcd")), ids="".join)
def test_a_member_that_must_be_near_another_comes_after_it(names: tuple[str, ...]) -> None:
    """d needs c, c needs b, b needs a: one order of all 24 will do."""
    made = GangScheduler([4, 4], g=4)
    needs = {"a": "", "b": "a", "c": "b", "d": "c"}
    pods = {name: member(name).label("app", name) for name in needs}
    for name, other in needs.items():
        if other:
            pods[name].spec(affinity=near(app=other))
    found = search(made, 4, *(pods[name] for name in names))
    assert found is not None
    assert len(set(found.values())) == 1


def test_members_that_fit_the_fewest_nodes_go_first_then_the_largest(looks: list[str]) -> None:
    made = GangScheduler([4, 4], g=1)
    made.scheduler.put(make_node("fast").allocatable(cpu=4).label("disk", "ssd").obj(), made.now)
    pods = [
        member("any", cpu=1), member("big", cpu=3), member("ssd").requests(cpu=1).selector(disk="ssd"),
        member("bigssd", cpu=3).selector(disk="ssd"),
    ]  # fmt: skip
    assert search(made, 4, *pods) is not None
    assert looks == ["any", "big", "ssd", "bigssd", "bigssd", "ssd", "big", "any"]


def test_the_first_of_its_kind_may_be_anywhere_so_those_who_look_around_go_first_once() -> None:
    """fixed has one node, and the other must be beside its like, unless there is none yet."""
    made = GangScheduler([2, 2], g=1)
    made.scheduler.put(make_node("fast").allocatable(cpu=1).label("disk", "ssd").obj(), made.now)
    pods = [
        member("fixed").labels(app="z").selector(disk="ssd"),
        member("choosy", cpu=2).labels(app="z").spec(affinity=near(app="z")),
    ]
    found = search(made, 2, *pods)
    assert found is not None
    assert found["fixed"] == "fast"
    assert found["choosy"] in ("n0", "n1")


def test_members_without_rules_are_searched_for_once(looks: list[str]) -> None:
    made = GangScheduler([3], g=1)
    assert search(made, 2, member("a", cpu=2), member("b", cpu=3)) is None
    assert looks == ["a", "b", "b", "a"], (
        "each to see where it fits, then the larger and what is left for the other"
    )


# Limits


def unpackable(number: int) -> list[PodBuilder]:
    """Members of different sizes, more than half a node each."""
    return [member(f"m{index}").requests(cpu=3, memory=index + 1) for index in range(number)]


def test_a_search_ends_after_so_many_looks(looks: list[str]) -> None:
    made = GangScheduler(g=1)
    for number in range(7):
        made.scheduler.put(make_node(f"n{number}").allocatable(cpu=4, memory=99 + number).obj(), made.now)
    assert search(made, 8, *unpackable(8)) is None
    assert len(looks) == 8 + 8 + MOST_STEPS


def test_of_large_gangs_no_member_goes_elsewhere(looks: list[str]) -> None:
    made = GangScheduler([2] * 17, g=1)
    small = [member(f"s{number}") for number in range(32)]
    assert len(small) == MOST_MEMBERS
    found = search(made, 33, *small, member("large", cpu=2))
    assert found is not None, "the largest first, and then there is a node for each"
    assert len(looks) == 2 + 33
    looks.clear()
    made = GangScheduler([2] * 17, g=1)
    made.put(make_pod("f/x").uid("x").requests(cpu=1).on("n0"))
    assert search(made, 33, *small, member("large", cpu=2)) is None
    assert len(looks) <= 2 + 33


def test_so_many_that_fit_nowhere_end_the_search_at_once(looks: list[str]) -> None:
    made = GangScheduler([9], g=1)
    pods = [member("a"), member("b", cpu=99), member("c", cpu=98)]
    assert search(made, 2, *pods) is None
    assert looks == ["a", "b", "c"]
    assert search(made, 1, *pods) == {"a": "n0"}


def test_a_search_that_failed_for_a_member_is_not_repeated_for_an_equal_one(looks: list[str]) -> None:
    made = GangScheduler([1, 1], g=1)
    search(
        made,
        3,
        member("a"),
        member("b"),
        member("c").labels(x="y"),
        member("big", cpu=1).requests(cpu=1, memory=1),
    )
    assert len(looks) <= 12


# What is left behind


def test_broken_code_leaves_nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([9], g=1)
    original = PodCycle.reserve

    def breaks(self: Any, profile: Any, attempt: Any) -> Any:
        if attempt.cycle.pod.name == "b":
            raise ZeroDivisionError("bug")
        return original(self, profile, attempt)

    monkeypatch.setattr(PodCycle, "reserve", breaks)
    with pytest.raises(ZeroDivisionError):
        search(made, 2, member("a", cpu=2), member("b"))
    assert made.state.placed == {}


def test_a_node_that_a_plugin_refuses_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([9, 4], g=1)
    original = PodCycle.reserve

    def refuses(self: Any, profile: Any, attempt: Any) -> Any:
        if attempt.slot == 0:
            return unschedulable("promised").of("Somebody")
        return original(self, profile, attempt)

    monkeypatch.setattr(PodCycle, "reserve", refuses)
    assert search(made, 2, member("a", cpu=2), member("b")) == {"a": "n1", "b": "n1"}


def test_the_quota_ends_where_it_ends() -> None:
    made = GangScheduler([9], g=1)
    made.scheduler.put(make_quota("a/q").min(cpu=3).max(cpu=3).obj(), made.now)
    assert search(made, 2, member("a", cpu=2), member("b", cpu=2), member("c")) == {"a": "n0", "c": "n0"}
    made = GangScheduler([9], g=1)
    made.scheduler.put(make_quota("a/q").min(cpu=3).max(cpu=3).obj(), made.now)
    assert search(made, 3, member("a", cpu=2), member("b", cpu=2), member("c")) is None


def test_the_port_of_a_pod_that_waits_for_a_node_is_its_own() -> None:
    made = GangScheduler([9, 4], g=1)
    port = [{"containerPort": 1, "hostPort": 80}]
    waiting = make_pod("f/w").uid("w").requests(cpu=1).priority(9)
    asking = member("a")
    for pod in (waiting, asking):
        pod.raw["spec"]["containers"][0]["ports"] = port
    made.state.nominations.put(waiting.obj(), "n0", made.state.vector(waiting.obj()))
    found = search(made, 2, asking, member("b", cpu=2))
    assert found is not None
    assert found["a"] == "n1"


def test_members_that_are_left_out_hold_nothing() -> None:
    made = GangScheduler([3], g=2)
    made.put(member("a", cpu=2).never(), member("b", cpu=2).never(), member("c").never())
    assert len(placed(made.step())) == 2
    assert len(made.state.placed) == 2


def test_those_who_look_around_go_last_once() -> None:
    """n0 is the only node for far, and the only one that near fits until there is another db beside n0."""
    made = GangScheduler(g=3)
    made.scheduler.put(make_node("n0").allocatable(cpu=3).label("disk", "ssd").obj(), made.now)
    made.scheduler.put(make_node("n1").allocatable(cpu=4).obj(), made.now)
    made.put(make_pod("a/x").uid("x").requests(cpu=1).labels(app="db").on("n0"))
    pods = [
        member("near", cpu=2).spec(affinity=near(app="db")),
        member("far", cpu=2).labels(app="db").selector(disk="ssd"),
        member("any").labels(app="db"),
    ]
    assert search(made, 3, *pods) == {"near": "n1", "far": "n0", "any": "n1"}


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids="".join)
def test_a_member_may_want_to_be_near_one_that_comes_after_it(names: tuple[str, str]) -> None:
    made = GangScheduler([4, 4], g=2)
    made.put(member(names[0]).spec(affinity=near(app="db")), member(names[1], cpu=2).labels(app="db"))
    found = placed(made.step())
    assert set(found) == {"a", "b"}
    assert len(set(found.values())) == 1
