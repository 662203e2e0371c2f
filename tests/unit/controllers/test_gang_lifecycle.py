"""Gangs below minMembers: told once for every change, restarted as a whole where their policy says so."""

from __future__ import annotations

from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.model.writes import Create, Evict, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import GroupRun, Repair, RepairReason
from tests.support.builders import make_group, make_node, make_pod


class Setting:
    """A gang of three of which all run."""

    def __init__(self, policy: str = "") -> None:
        self.state = ClusterState()
        self.lifecycle = GangLifecycle()
        self.state.put_node(make_node("n").allocatable(cpu=9).obj())
        group = make_group("a/g").needs(3).uid("g1").annotation("muster.dev/lifecycle-policy", policy)
        self.state.put_gang(group.obj())
        for name in ("p0", "p1", "p2"):
            self.put(name)

    def put(self, name: str, phase: str = "Running", deleting: bool = False) -> None:
        pod = make_pod(f"a/{name}").uid(name).group("g").on("n", phase)
        self.state.put_pod((pod.deleting(5.0) if deleting else pod).obj(), 0.0)

    def writes(self) -> list[Write]:
        return self.lifecycle.reconcile(self.state, 100.0)

    def told(self) -> str:
        (event,) = self.writes()
        assert isinstance(event, Create)
        assert event.body["reason"] == "Unschedulable"
        assert event.body["regarding"]["uid"] == "g1"
        return str(event.body["note"])


def test_a_whole_gang_is_left_in_peace() -> None:
    assert Setting("restart").writes() == []


def test_a_gang_below_its_minimum_is_told_once_for_every_change() -> None:
    setting = Setting()
    setting.state.remove_pod("p2")
    assert "below minMembers 3: 2 have a node, 0 wait" in setting.told()
    setting.put("p1")
    assert setting.writes() == []
    setting.state.remove_pod("p1")
    assert "1 have a node" in setting.told()


def test_a_gang_that_was_whole_again_is_told_anew() -> None:
    setting = Setting()
    setting.state.remove_pod("p2")
    setting.told()
    setting.put("p2")
    assert setting.writes() == []
    setting.put("p2", "Failed")
    assert "1 failed" in setting.told()


def test_restart_evicts_all_that_are_left_by_their_uids() -> None:
    setting = Setting("restart")
    setting.put("p2", "Failed")
    event, *evictions = setting.writes()
    assert isinstance(event, Create)
    assert [write.uid for write in evictions if isinstance(write, Evict)] == ["p0", "p1"]
    assert setting.writes() == []


def test_restart_is_told_once_while_the_members_go_one_by_one() -> None:
    setting = Setting("restart")
    setting.state.remove_pod("p2")
    assert len(setting.writes()) == 3
    setting.put("p0", deleting=True)
    assert setting.writes() == []
    setting.put("p1", deleting=True)
    assert setting.writes() == []
    assert setting.lifecycle.next_time(setting.state) is None


def test_an_eviction_without_effect_is_asked_for_again() -> None:
    setting = Setting("restart")
    setting.state.remove_pod("p2")
    assert len(setting.writes()) == 3
    setting.put("p0", deleting=True)
    assert setting.writes() == []
    due = setting.lifecycle.next_time(setting.state)
    assert due == 130.0
    (again,) = setting.lifecycle.reconcile(setting.state, due)
    assert isinstance(again, Evict)
    assert again.uid == "p1"


def test_members_that_wait_or_succeeded_are_not_missing() -> None:
    setting = Setting("restart")
    setting.put("p2", "Succeeded")
    assert setting.writes() == []
    setting.state.remove_pod("p1")
    setting.state.put_pod(make_pod("a/p3").uid("p3").group("g").obj(), 0.0)
    assert setting.writes() == []


def test_pods_of_a_deleted_group_are_not_touched() -> None:
    setting = Setting("restart")
    setting.state.remove_pod("p2")
    (gang,) = setting.state.gangs.gangs.values()
    setting.state.remove_gang(gang)
    assert setting.writes() == []


def test_a_gang_whose_place_is_gone_is_restarted_though_enough_pods_wait() -> None:
    made = Setting("restart")
    text = "1 member is missing, and rack=r0 has no room, but elsewhere there is room for all of it"
    repair = Repair(RepairReason.RESTARTED, text, frozenset({"p0", "p1", "gone"}))
    made.state.topology.runs["a/g PodGroup"] = GroupRun(repair=repair)
    event, *evictions = made.writes()
    assert isinstance(event, Create)
    assert event.body["note"] == (
        f"PodGroup a/g: {text}; the 3 that are left are evicted (lifecycle policy restart)"
    )
    assert [item.name for item in evictions if isinstance(item, Evict)] == ["p0", "p1", "p2"]


def test_a_decision_about_other_pods_restarts_nothing() -> None:
    made = Setting("restart")
    repair = Repair(RepairReason.RESTARTED, "old", frozenset({"gone"}))
    made.state.topology.runs["a/g PodGroup"] = GroupRun(repair=repair)
    assert made.writes() == []


def test_nothing_is_due_for_a_gang_that_is_not_restarted() -> None:
    made = Setting()
    made.state.remove_pod("p2")
    made.told()
    made.put("p1")
    assert made.writes() == []
    assert made.lifecycle.next_time(made.state) is None


def test_nothing_is_due_any_more_once_the_policy_is_taken_back() -> None:
    made = Setting("restart")
    made.state.remove_pod("p2")
    assert len(made.writes()) == 3
    made.state.put_gang(make_group("a/g").needs(3).uid("g1").obj())
    assert made.writes() == []
    assert made.lifecycle.next_time(made.state) is None
