"""The gang cycle: who is still missing, all or nothing, and gangs that were begun before."""

from __future__ import annotations

import pytest

from scheduler_core.engine.decisions import Placed
from scheduler_core.state.gangs.gangs import Census, missing
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, noticed, placed, rejected

GANG = make_group("a/g").needs(4).obj()


def census(allocated: int = 0, waiting: int = 0, succeeded: int = 0) -> Census:
    return Census(allocated + waiting + succeeded, allocated, waiting, 0, succeeded, 0)


@pytest.mark.parametrize(
    ("found", "need"),
    [
        pytest.param(census(waiting=4), 4, id="all wait: all are needed"),
        pytest.param(census(waiting=9), 4, id="more wait: still only minMembers are needed"),
        pytest.param(census(allocated=3, waiting=1), 1, id="some have a node: the others are needed"),
        pytest.param(census(allocated=4, waiting=2), 0, id="the gang is ready: the rest come singly"),
        pytest.param(census(allocated=6), 0, id="more than enough have a node"),
        pytest.param(census(waiting=2, succeeded=2), 2, id="too few are left: succeeded ones count"),
        pytest.param(census(waiting=4, succeeded=2), 4, id="enough are left: succeeded ones do not count"),
        pytest.param(census(allocated=1, waiting=1, succeeded=2), 1, id="with one running and two done"),
        pytest.param(census(waiting=1, succeeded=4), 0, id="enough succeeded for one that runs again"),
        pytest.param(census(waiting=3), 4, id="too few pods: more are needed than wait"),
    ],
)
def test_missing(found: Census, need: int) -> None:
    assert missing(GANG, found) == need


def test_a_gang_that_does_not_fit_holds_nothing_and_says_how_many_fit() -> None:
    gang = GangScheduler([2], g=3)
    gang.put(member("p0"), member("p1"), member("p2", cpu=2))
    decisions = gang.step()
    assert placed(decisions) == {}
    assert "only 2 of the 3 pods that must start together find a node" in rejected(decisions)["p0"].message
    assert not gang.state.placed
    assert [item.reason for item in noticed(decisions)] == ["Unschedulable"]


def test_too_few_pods_are_told_to_the_pods_and_the_group_with_the_count() -> None:
    gang = GangScheduler([9], g=3)
    gang.put(member("p0"), member("p1"))
    decisions = gang.step()
    assert {item.event for item in rejected(decisions).values()} == {"Unschedulable"}
    (notice,) = noticed(decisions)
    assert (notice.kind, notice.name, notice.uid) == ("PodGroup", "g", "g")
    assert "needs minMembers 3: 2 pods wait, 0 have a node" in notice.message


def test_members_that_another_scheduler_bound_count() -> None:
    gang = GangScheduler([9], g=4)
    for name in ("b0", "b1"):
        gang.put(member(name).scheduler("default-scheduler").on("n0"))
    gang.put(member("p0"))
    gang.put(member("away").scheduler("default-scheduler"))
    assert "needs minMembers 4: 1 pod waits, 2 have a node" in rejected(gang.step())["p0"].message
    gang.put(member("p1"))
    assert set(placed(gang.step(10.0))) == {"p0", "p1"}


def test_members_of_two_gangs_never_interleave() -> None:
    gang = GangScheduler([3], g=2, h=2)
    gang.put(member("h0", "h"), member("g0"), member("h1", "h"), member("g1"))
    decisions = gang.step()
    assert set(placed(decisions)) == {"g0", "g1"}, "the older group goes first, and whole"
    assert set(rejected(decisions)) == {"h0", "h1"}


def test_members_beyond_the_minimum_take_what_is_left() -> None:
    gang = GangScheduler([3], g=2)
    gang.put(*(member(f"p{i}") for i in range(4)))
    decisions = gang.step()
    assert len(placed(decisions)) == 3
    assert len(rejected(decisions)) == 1


def test_a_member_whose_binding_failed_is_tried_alone_and_completes_the_gang() -> None:
    gang = GangScheduler([2, 2], g=3)
    pods = {name: member(name) for name in ("p0", "p1", "p2")}
    gang.put(*pods.values())
    where = placed(gang.step())
    for name in ("p0", "p1"):
        gang.put(pods[name].on(where[name]))
    gang.scheduler.bind_failed(pods["p2"].obj(), gang.now)
    assert placed(gang.step()) == {}, "its backoff comes first"
    assert set(placed(gang.step(later=2.0))) == {"p2"}


def test_the_room_of_a_member_whose_binding_failed_is_not_taken_by_others() -> None:
    gang = GangScheduler([2], g=2)
    pods = {name: member(name) for name in ("p0", "p1")}
    gang.put(*pods.values())
    gang.step()
    gang.put(pods["p0"].on("n0"))
    gang.scheduler.bind_failed(pods["p1"].obj(), gang.now)
    gang.put(make_pod("a/thief").uid("thief").requests(cpu=1))
    assert placed(gang.step()) == {}
    assert set(placed(gang.step(later=2.0))) == {"p1"}


def test_all_bindings_fail_and_the_gang_starts_again_as_a_whole() -> None:
    gang = GangScheduler([2], g=2)
    pods = [member("p0"), member("p1")]
    gang.put(*pods)
    gang.step()
    for pod in pods:
        gang.scheduler.bind_failed(pod.obj(), gang.now)
    assert not gang.state.placed
    assert set(placed(gang.step(later=20.0))) == {"p0", "p1"}


def test_a_new_process_completes_a_gang_of_which_some_are_bound() -> None:
    gang = GangScheduler([3], g=3)
    gang.put(member("p0").on("n0"), member("p1").on("n0", "Pending"), member("p2"))
    assert placed(gang.step()) == {"p2": "n0"}


def test_a_member_that_another_scheduler_placed_lets_the_others_start() -> None:
    gang = GangScheduler([9], g=3)
    gang.put(member("theirs").scheduler("other"), member("p0"), member("p1"))
    assert placed(gang.step()) == {}
    gang.put(make_pod("a/stranger").uid("stranger").group("h").on("n0"))
    assert placed(gang.step(later=20.0)) == {}
    gang.put(member("theirs").scheduler("other").on("n0"))
    assert set(placed(gang.step())) == {"p0", "p1"}


def test_members_on_their_way_out_are_not_allocated() -> None:
    gang = GangScheduler([4], g=2)
    gang.put(*(member(f"old{i}").on("n0").deleting(gang.now) for i in range(2)))
    gang.put(member("new0", cpu=2), member("new1", cpu=2))
    assert placed(gang.step()) == {}, "one of them would fit, alone"


def test_a_gang_of_several_specs_goes_where_each_may_go() -> None:
    gang = GangScheduler([4], g=2)
    gang.put(member("p0"), member("p1").selector(disk="ssd"))
    assert placed(gang.step()) == {}
    gang.scheduler.put(make_node("fast").label("disk", "ssd").allocatable(cpu=1).obj(), gang.now)
    assert placed(gang.step(later=20.0)) == {"p0": "n0", "p1": "fast"}


def test_the_same_objects_give_the_same_decisions() -> None:
    def decide() -> list[tuple[str, str]]:
        gang = GangScheduler([3, 3, 3], g=4, h=3)
        gang.put(*(member(f"{g}{i}", g) for i in range(4) for g in ("g", "h")))
        return [(item.pod.name, item.node) for item in gang.step() if isinstance(item, Placed)]

    assert decide() == decide()
    assert len(decide()) == 8


def test_members_that_differ_are_tried_with_the_largest_first_where_their_own_order_fails() -> None:
    gang = GangScheduler([4, 3], g=3)
    gang.put(member("small"), member("middle", cpu=2), member("large", cpu=4))
    assert placed(gang.step()) == {"small": "n1", "middle": "n1", "large": "n0"}


def test_the_message_has_the_numbers_of_the_shortage() -> None:
    gang = GangScheduler([2, 3], g=8)
    gang.put(*(member(f"p{i}") for i in range(8)))
    assert rejected(gang.step())["p0"].message == (
        "PodGroup a/g: only 5 of the 8 pods that must start together find a node: "
        "3 pods short: each needs 1 cpu; 2 nodes have this resource"
    )


def test_members_whose_eviction_was_decided_are_no_part_of_the_quorum() -> None:
    gang = GangScheduler([4], g=2)
    gang.put(member("old0").on("n0"), member("old1").on("n0"))
    gang.put(make_pod("b/urgent").uid("urgent").requests(cpu=4).priority(9))
    gang.step()
    assert all(gang.state.table.leaving[gang.state.placed[name].row] for name in ("old0", "old1"))
    gang.put(member("new0"))
    decisions = gang.step()
    assert "needs minMembers 2: 1 pod waits, 0 have a node" in rejected(decisions)["new0"].message


def test_a_new_incarnation_waits_for_the_quota_of_the_old_one() -> None:
    gang = GangScheduler([8], g=2)
    gang.scheduler.put(make_quota("a/q").min(cpu=2).max(cpu=2).obj(), gang.now)
    gang.put(*(member(f"old{i}").on("n0").deleting(5.0) for i in range(2)))
    gang.put(*(member(f"new{i}") for i in range(2)))
    said = rejected(gang.step())["new0"].message
    assert "only 0 of the 2 pods that must start together" in said, "not that it never could"
    for i in range(2):
        gang.scheduler.remove(gang.state.pods[f"old{i}"], gang.now)
    assert set(placed(gang.step(later=20.0))) == {"new0", "new1"}


def test_a_gang_that_loses_a_waiting_member_says_that_it_is_too_few() -> None:
    gang = GangScheduler([2], g=3)
    gang.put(*(member(f"p{i}") for i in range(3)))
    assert "3 pods that must start together" in rejected(gang.step())["p0"].message
    gang.scheduler.remove(gang.state.pods["p2"], gang.now)
    decisions = gang.step(later=20.0)
    assert "needs minMembers 3: 2 pods wait" in rejected(decisions)["p0"].message
    assert {item.event for item in rejected(decisions).values()} == {"Unschedulable"}
