"""In which order units are tried, what follows from a decision, and what each outcome waits for."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.gang.outcome import MustWait, Outcome
from scheduler_core.engine.queue.scheduling_queue import Part
from scheduler_core.errors import PluginError
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.status import Code, Status, unschedulable
from scheduler_core.model.names import REASON_SCHEDULER_ERROR, REASON_UNSCHEDULABLE
from scheduler_core.model.writes import Bind
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, noticed, placed, rejected
from tests.unit.engine.gang.test_cycle_attempt import says


def single(name: str, cpu: int = 1, namespace: str = "f", priority: int = 0) -> PodBuilder:
    return make_pod(f"{namespace}/{name}").uid(name).requests(cpu=cpu).priority(priority)


def nominate(made: GangScheduler, name: str, node: str, *, kept: bool = False, group: str = "") -> None:
    pod = made.state.pods[name]
    made.state.nominations.put(pod, node, made.state.vector(pod), kept=kept, group=group)
    made.state.nominations.freed = False


def waits_for(made: GangScheduler, key: str) -> frozenset[str]:
    """Who refused a unit, whether it still waits for them or was woken by what was placed beside it."""
    unit = made.scheduler.queue.units[key]
    assert unit.part in (Part.UNSCHEDULABLE, Part.BACKOFF)
    return unit.plugins


# What comes in


def test_a_pod_that_was_just_given_a_node_is_not_queued_by_its_older_form() -> None:
    made = GangScheduler([4])
    made.put(single("p"))
    assert placed(made.step()) == {"p": "n0"}
    made.put(single("p").version("7").labels(a="b"))
    assert (made.scheduler.queue.units, made.step(60.0)) == ({}, [])


def test_a_pod_that_takes_another_gang_is_tried_with_that_one() -> None:
    made = GangScheduler([9], g=2, h=2)
    made.put(member("m0"), member("m1", "h"))
    assert placed(made.step()) == {}
    made.put(member("m0", "h"))
    assert set(placed(made.step(60.0))) == {"m0", "m1"}
    assert made.scheduler.queue.units == {}


@pytest.mark.parametrize("first", ["group", "pods"])
def test_the_age_and_priority_of_a_group_decide_whenever_it_comes(first: str) -> None:
    made = GangScheduler([2])
    groups = [
        make_group("a/young").uid("y").needs(2).created(50.0),
        make_group("a/old").uid("o").needs(2).created(10.0),
    ]
    pods = [
        member(f"{name}{n}", name).created(90.0 - 30 * (name == "young"))
        for name in ("young", "old")
        for n in "01"
    ]
    for builder in [*groups, *pods] if first == "group" else [*pods, *groups]:
        made.scheduler.put(builder.obj(), made.now)
    units = made.scheduler.queue.units
    assert {key: unit.created for key, unit in units.items()} == {
        "a/young PodGroup": 50.0,
        "a/old PodGroup": 10.0,
    }
    assert set(placed(made.step())) == {"old0", "old1"}


def test_a_group_that_changes_its_priority_takes_its_unit_along() -> None:
    made = GangScheduler([9])
    raw = make_group("a/g").uid("g").needs(2)
    made.scheduler.put(raw.obj(), made.now)
    made.put(member("m0").priority(3))
    gang = made.state.gangs.gangs["a/g PodGroup"]
    assert made.scheduler.queue.units["a/g PodGroup"].gang_priority == gang.priority


@pytest.mark.parametrize("gone", ["node", "pod"])
def test_the_end_of_a_nominated_pod_wakes_pods_that_wait_for_its_nomination(gone: str) -> None:
    made = GangScheduler([2, 1])
    made.put(single("w", 2, priority=9).gate("later"), single("p", 2))
    nominate(made, "w", "n0")
    assert placed(made.step()) == {}
    if gone == "pod":
        made.scheduler.remove(made.state.pods["w"], made.now)
        assert placed(made.step(60.0)) == {"p": "n0"}
    else:
        made.scheduler.remove(make_node("n1").allocatable(cpu=1).obj(), made.now)
        assert placed(made.step(60.0)) == {}


# Who is tried


def test_members_go_by_priority_then_age_then_name() -> None:
    made = GangScheduler([9], g=1)
    made.put(
        member("late").created(9.0), member("b").created(1.0), member("a").created(1.0),
        member("master").created(99.0).priority(5),
    )  # fmt: skip
    assert list(placed(made.step())) == ["master", "a", "b", "late"]


def test_gated_members_are_not_tried_and_do_not_count() -> None:
    made = GangScheduler([9], g=2)
    made.put(member("m0"), member("m1").gate("later"), member("m2"))
    assert set(placed(made.step())) == {"m0", "m2"}
    unit = made.scheduler.queue.units["a/g PodGroup"]
    assert (set(unit.pods), unit.part) == ({"m1"}, Part.GATED)
    made.put(member("m1"))
    assert set(placed(made.step(60.0))) == {"m1"}


def test_as_many_units_are_tried_as_are_asked_for() -> None:
    made = GangScheduler([1])
    made.put(*(single(f"p{number}", 9).created(number) for number in range(4)))
    for limit, names in ((0, []), (1, ["p0"]), (2, ["p1", "p2"]), (None, ["p3"])):
        assert list(rejected(made.scheduler.step(made.now, limit))) == names


# What follows at once


def test_a_pod_that_takes_another_node_lets_others_preempt_where_it_was_nominated() -> None:
    made = GangScheduler([2])
    made.put(single("v", 2).on("n0"), single("big", 1, priority=5).gate("later"), single("p", 2, priority=3))
    nominate(made, "big", "n0")
    decisions = made.step()
    assert (evicted(decisions), list(rejected(decisions))) == (set(), ["p"])
    made.scheduler.put(make_node("n1").allocatable(cpu=1).obj(), made.now)
    assert made.step(60.0) == []
    made.put(single("big", 1, priority=5))
    decisions = made.step()
    assert (placed(decisions), evicted(decisions)) == ({"big": "n1"}, {"v"})


def test_a_pod_that_starts_on_its_kept_node_frees_nothing() -> None:
    made = GangScheduler([2, 2])
    made.put(single("p", 2))
    nominate(made, "p", "n1")
    assert placed(made.step()) == {"p": "n1"}
    before = made.scheduler.queue.incoming.copy()
    made.step()
    assert made.scheduler.queue.incoming == before


def test_a_placement_that_makes_a_quota_borrow_lets_others_reclaim() -> None:
    made = GangScheduler([4])
    for space, low in (("a", 2), ("b", 2)):
        made.scheduler.put(make_quota(f"{space}/q").min(cpu=low).max(cpu=9).obj(), made.now)
    made.put(single("x", 2, "f").priority(9).on("n0"), single("b0", 1, "b").on("n0"))
    made.put(single("a0", 2, "a").priority(5))
    decisions = made.step()
    assert (placed(decisions), evicted(decisions)) == ({}, set())
    made.put(single("b1", 1, "b").priority(9))
    assert placed(made.step(5.0)) == {"b1": "n0"}
    made.scheduler.remove(made.state.pods["x"], made.now)
    assert set(placed(made.step(30.0))) == {"a0"}


# A node without any eviction


def test_a_pod_that_needs_no_further_victim_waits_for_leaving_pods() -> None:
    made = GangScheduler([2])
    made.put(single("v", 2).deleting(5.0).on("n0"), single("p", 2, priority=5))
    decisions = made.step()
    assert (placed(decisions), evicted(decisions)) == ({}, set())
    made.scheduler.remove(made.state.pods["v"], made.now)
    assert placed(made.step(30.0)) == {"p": "n0"}


# Members of a gang on their own


def test_a_ready_gang_takes_its_members_one_by_one() -> None:
    made = GangScheduler([4], g=1)
    made.put(member("m0").on("n0"), member("m1"), member("m2", cpu=9), member("m3"))
    decisions = made.step()
    assert set(placed(decisions)) == {"m1", "m3"}
    assert "1 Insufficient cpu" in rejected(decisions)["m2"].message
    assert {"NodeResourcesFit", "Coscheduling"} <= waits_for(made, "a/g PodGroup")
    assert noticed(decisions) == []


def test_members_beyond_the_start_preempt_like_any_pod() -> None:
    made = GangScheduler([2, 1], g=1)
    made.put(single("v", 1).on("n1"), member("m0", cpu=2).priority(5), member("m1", cpu=1).priority(5))
    decisions = made.step()
    assert (placed(decisions), evicted(decisions)) == ({"m0": "n0"}, {"v"})
    assert list(rejected(decisions)) == ["m1"]
    assert "Coscheduling" in waits_for(made, "a/g PodGroup")


def test_a_gang_that_is_placed_to_the_last_member_waits_for_nothing() -> None:
    made = GangScheduler([4], g=2)
    made.put(member("m0"), member("m1"), member("m2"))
    assert len(placed(made.step())) == 3
    assert made.scheduler.queue.units == {}


def test_members_without_a_group_wait_for_it_by_name() -> None:
    made = GangScheduler([4])
    made.put(member("m0"), member("m1"))
    assert set(rejected(made.step())) == {"m0", "m1"}
    assert "Coscheduling" in waits_for(made, "a/g PodGroup")


def test_one_broken_member_of_a_ready_gang_is_tried_again_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = GangScheduler([4], g=1)
    made.put(member("m0").on("n0"), member("m1"), member("m2"), member("m3", cpu=9))
    says(monkeypatch, m1=PluginError("Somebody", "reserve", "a/m1", ZeroDivisionError("bug")))
    decisions = made.step()
    assert set(placed(decisions)) == {"m2"}
    assert rejected(decisions)["m1"].reason == REASON_SCHEDULER_ERROR
    unit = made.scheduler.queue.units["a/g PodGroup"]
    assert (set(unit.pods), unit.part) == ({"m1", "m3"}, Part.BACKOFF)


def test_a_broken_member_of_a_gang_tells_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([4], g=2)
    made.put(member("m0"), member("m1", cpu=2))
    says(monkeypatch, m1=PluginError("Somebody", "reserve", "a/m1", ZeroDivisionError("bug")))
    told = rejected(made.step())
    assert {name: item.reason for name, item in told.items()} == dict.fromkeys(
        ("m0", "m1"), REASON_SCHEDULER_ERROR
    )
    assert all("Somebody" in item.message and "bug" in item.message for item in told.values())
    assert made.scheduler.queue.units["a/g PodGroup"].part is Part.BACKOFF


def test_a_refused_node_is_told_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([4])
    made.put(single("p"))
    says(monkeypatch, p=unschedulable("the node is promised").of("Somebody"))
    item = rejected(made.step())["p"]
    assert (item.message, item.reason, item.nominated) == ("the node is promised", REASON_UNSCHEDULABLE, "")
    assert waits_for(made, "f/p") == {"Somebody"}
    assert len(made.state.nominations) == 0


def test_a_node_that_is_prepared_is_nominated_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([4])
    made.put(single("p"))
    write = Bind("a", "v", "v", "n0")
    says(monkeypatch, p=Status(Code.PENDING, "a volume is made", "Volumes", Preparation((write,))))
    item = rejected(made.step())["p"]
    assert (item.message, item.nominated, item.writes) == ("a volume is made", "n0", (write,))
    assert (made.state.nominations.node_of("p"), made.state.placed) == ("n0", {})


# A gang whose nodes are lost


@pytest.mark.parametrize(
    ("tainted", "left"),
    [
        pytest.param("n0", set(), id="one of its nodes: it looks anew as a whole"),
        pytest.param("n2", {"m0", "m1"}, id="another node: it waits"),
    ],
)
def test_a_gang_that_lost_one_of_its_nodes_gives_all_of_them_up(tainted: str, left: set[str]) -> None:
    made = GangScheduler([2, 2, 2], g=2)
    made.put(*(single(f"x{n}", 2, priority=9).deleting(5.0).on(f"n{n}") for n in range(2)))
    made.put(single("x2", 2, priority=9).on("n2"))
    made.put(member("m0", cpu=2), member("m1", cpu=2))
    for number in range(2):
        nominate(made, f"m{number}", f"n{number}", group="a/g PodGroup")
    made.scheduler.put(make_node(tainted).allocatable(cpu=2).taint("t").obj(), made.now)
    made.step()
    assert {name for name in ("m0", "m1") if made.state.nominations.node_of(name)} == left


# What the API refuses


def test_a_binding_that_failed_lets_others_have_the_node() -> None:
    made = GangScheduler([1])
    made.put(single("p").created(1.0), single("q").created(2.0))
    assert placed(made.step()) == {"p": "n0"}
    made.now += 60.0
    made.scheduler.bind_failed(made.state.pods["p"], made.now)
    assert len(made.state.nominations) == 0, "a pod alone has no right to the node"
    assert placed(made.step()) == {"q": "n0"}


def test_an_eviction_that_failed_is_news_for_all_that_waited_for_it() -> None:
    made = GangScheduler([1])
    made.put(single("v").on("n0"), single("p", priority=5))
    assert evicted(made.step()) == {"v"}
    unit = made.scheduler.queue.units["f/p"]
    made.scheduler.evict_failed(made.state.pods["v"], made.state.pods["p"], made.now)
    assert unit.part is Part.BACKOFF
    assert not made.state.table.leaving[made.state.placed["v"].row]


def test_spread_counts_a_victim_again_whose_eviction_failed() -> None:
    made = GangScheduler()
    for number in range(3):
        node = make_node(f"n{number}").label("kubernetes.io/hostname", f"n{number}").allocatable(cpu=1)
        made.scheduler.put(node.obj(), made.now)
    even = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    made.put(*(single(f"w{number}", cpu=0).labels(app="web").on(f"n{number}") for number in range(3)))
    made.put(*(single(f"t{number}").on(f"n{number}") for number in (1, 2)))
    made.put(single("w3").labels(app="web").spec(topologySpreadConstraints=[even], preemptionPolicy="Never"))
    made.state.mark_leaving("w1")
    assert placed(made.step()) == {}, "n1 is about to have fewer, and is full"
    made.scheduler.evict_failed(made.state.pods["w1"], made.state.pods["t1"], made.now)
    assert placed(made.step(60.0)) == {"w3": "n0"}


# Outcomes of groups


def outcome_of(made: GangScheduler, monkeypatch: pytest.MonkeyPatch, found: Outcome) -> Any:
    monkeypatch.setattr(made.scheduler.unit_cycle.gang_cycle, "run", lambda *args: found)
    return made.step()


def test_a_group_that_is_refused_waits_for_the_plugins_and_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([4], g=2)
    made.put(member("m0"), member("m1"))
    found = MustWait(refused={"m0": "no", "m1": "no"}, plugins=frozenset({"Somebody"}))
    told = rejected(outcome_of(made, monkeypatch, found))
    assert {name: item.message for name, item in told.items()} == {"m0": "no", "m1": "no"}
    assert waits_for(made, "a/g PodGroup") == {"Somebody", "Coscheduling"}


def test_a_gang_is_due_when_nodes_are_kept_for_it_and_a_pod_is_not() -> None:
    made = GangScheduler([1], g=2)
    for profile in made.scheduler.profiles.values():
        for plugin in profile.plugins:
            if hasattr(plugin, "reservation_seconds"):
                plugin.reservation_seconds = 30.0
    made.put(member("m0"), member("m1"))
    made.step()
    assert made.scheduler.queue.next_time() == made.now + 30.0
