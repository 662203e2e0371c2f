"""What a gang that does not start is told, when it is tried again, and when nodes are kept for it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.config.load import load_config
from scheduler_core.engine.gang.capacity import least
from scheduler_core.engine.gang.topology_slots import Slots, leaf_capacity, slots_for
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.errors import PluginError
from scheduler_core.framework.status import unschedulable
from scheduler_core.model.names import REASON_UNSCHEDULABLE
from tests.support.builders import NodeBuilder, PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, placed, rejected
from tests.unit.engine.test_pod_cycle import Rig
from tests.unit.engine.topology_scheduler import TopologyScheduler, members, nodes, why


@pytest.mark.parametrize(
    ("need", "requests", "expected"),
    [
        pytest.param(2, [{"cpu": 3}, {"cpu": 1}, {"cpu": 2}], {"cpu": 3}, id="the smallest two"),
        pytest.param(3, [{"cpu": 3}, {"cpu": 1}, {"cpu": 2}], {"cpu": 6}, id="all"),
        pytest.param(
            2, [{"cpu": 3}, {"cpu": 1}, {"gpu": 1}], {"cpu": 1, "gpu": 0}, id="who asks for none of it"
        ),
        pytest.param(1, [], {}, id="nobody"),
    ],
)
def test_the_least_that_so_many_ask_for(
    need: int, requests: list[dict[str, int]], expected: dict[str, int]
) -> None:
    assert least(need, requests) == expected


def test_a_member_that_is_refused_its_node_keeps_the_gang_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = PodCycle.reserve

    def refuses(self: Any, profile: Any, attempt: Any) -> Any:
        if attempt.cycle.pod.name == "m1":
            return unschedulable("the node is promised").of("Somebody")
        return original(self, profile, attempt)

    monkeypatch.setattr(PodCycle, "reserve", refuses)
    made = GangScheduler([9], g=2)
    made.put(member("m0"), member("m1", cpu=2))
    decisions = made.step()
    assert (placed(decisions), made.state.placed) == ({}, {})
    assert "the node is promised" in rejected(decisions)["m1"].message
    assert "Somebody" in made.scheduler.queue.units["a/g PodGroup"].plugins


def patient(made: GangScheduler, seconds: float) -> None:
    for profile in made.scheduler.profiles.values():
        for plugin in profile.plugins:
            if hasattr(plugin, "reservation_seconds"):
                plugin.reservation_seconds = seconds


def test_nodes_are_kept_when_the_reservation_delay_ends_without_any_event() -> None:
    made = GangScheduler([2, 2], g=2)
    patient(made, 60.0)
    made.put(*(make_pod(f"f/x{n}").uid(f"x{n}").requests(cpu=1).priority(9).on(f"n{n}") for n in range(2)))
    made.put(member("m0", cpu=2), member("m1", cpu=2))
    made.step()
    assert made.scheduler.queue.next_time() == made.now + 60.0
    made.step(59.0)
    assert len(made.state.nominations) == 0
    made.step(1.0)
    assert sorted(made.state.nominations.node_of(f"m{n}") for n in range(2)) == ["n0", "n1"]


def test_a_pod_alone_is_due_at_no_time() -> None:
    made = GangScheduler([1])
    patient(made, 60.0)
    made.put(make_pod("f/p").uid("p").requests(cpu=5))
    made.step()
    assert made.scheduler.queue.next_time() == made.now + 300.0


@pytest.mark.parametrize("how", ["fails", "is deleted"])
def test_a_released_nominated_node_wakes_pods_that_may_use_it(how: str) -> None:
    made = GangScheduler([1])
    victim = make_pod("f/v").uid("v").requests(cpu=1).on("n0")
    made.put(victim)
    high = make_pod("f/high").uid("high").requests(cpu=1).priority(5)
    made.put(high, make_pod("f/low").uid("low").requests(cpu=1))
    made.step()
    high.gate("not-now")
    made.put(high)
    made.scheduler.remove(victim.obj(), made.now)
    assert placed(made.step(30.0)) == {}, "the room is kept"
    made.put(high.status(phase="Failed") if how == "fails" else high.deleting(5.0))
    assert placed(made.step(30.0)) == {"low": "n0"}


def test_a_pod_that_no_room_can_help_keeps_none() -> None:
    made = GangScheduler([1])
    victim = make_pod("f/v").uid("v").requests(cpu=1).on("n0")
    high = make_pod("f/high").uid("high").requests(cpu=1).priority(5)
    made.put(victim, high, make_pod("f/low").uid("low").requests(cpu=1))
    made.step()
    assert made.state.nominations.node_of("high") == "n0"
    made.put(high.group("nowhere"))
    assert "does not exist" in rejected(made.step(30.0))["high"].message
    assert made.state.nominations.node_of("high") == ""
    made.scheduler.remove(victim.obj(), made.now)
    assert placed(made.step(30.0)) == {"low": "n0"}


def test_a_profile_whose_binders_all_skip_is_an_error() -> None:
    rig = Rig(second={"bind": None})
    with pytest.raises(PluginError, match="no bind plugin answered"):
        rig.reserve()
    assert rig.state.placed == {}


# Groups on the topology


def test_too_few_members_are_an_event_of_the_group() -> None:
    made = TopologyScheduler(4)
    made.group("g", 3)
    made.put(*members("g", 2))
    assert {item.event for item in rejected(made.step()).values()} == {REASON_UNSCHEDULABLE}


def test_a_group_that_its_quota_refuses_is_told_the_numbers() -> None:
    made = TopologyScheduler(4, quotas=True)
    made.put(make_quota("a/q").min(cpu=9).max(cpu=1))
    made.put(make_pod("a/x").uid("x").requests(cpu=1).on("n0"))
    made.group("g", 1)
    made.put(*members("g", 1))
    decisions = made.step()
    assert nodes(decisions) == {}
    (text,) = why(decisions)
    assert "ElasticQuota a/q" in text
    assert "exceeds max=1" in text


def slots(made: TopologyScheduler, *cpus: int) -> Slots:
    profile = next(iter(made.scheduler.profiles.values()))
    made.group("g", len(cpus))
    pods = [pod.obj() for number, cpu in enumerate(cpus) for pod in members("g", 1, cpu, number)]
    tree = made.state.topology.tree(profile.name)
    found = slots_for(made.scheduler.cycle, tree, [(profile, pod) for pod in pods], made.now)
    assert isinstance(found, Slots)
    return found


def test_how_many_members_fit_on_every_leaf() -> None:
    made = TopologyScheduler(5, 4, 3, 2)
    made.put(make_node("n1").allocatable(cpu=4).taint("t"))
    made.put(make_pod("a/x").uid("x").requests(cpu=2).on("n0"))
    found = slots(made, 1, 1)
    assert leaf_capacity(made.state, found).tolist() == [3, 0, 3, 2]
    assert leaf_capacity(made.state, found, {"x"}).tolist() == [5, 0, 3, 2]
    assert leaf_capacity(made.state, found, idle=True).tolist() == [5, 0, 3, 2]
    assert leaf_capacity(made.state, slots(made, 1, 2)).tolist() == [1, 0, 1, 1], "room is for the largest"


def test_a_leaf_without_a_node_has_no_room() -> None:
    made = TopologyScheduler(2, 2)
    made.scheduler.remove(make_node("n0").allocatable(cpu=2).obj(), made.now)
    assert leaf_capacity(made.state, slots(made, 1)).tolist() == [0, 2]


def test_room_that_is_kept_for_others_is_none() -> None:
    made = TopologyScheduler(2, 2)
    made.put(make_pod("b/w").uid("w").requests(cpu=1).priority(9).gate("g"))
    waiting = made.state.pods["w"]
    made.state.nominations.put(waiting, "n0", made.state.vector(waiting))
    assert leaf_capacity(made.state, slots(made, 1)).tolist() == [1, 2]


def test_the_rest_of_a_gang_is_gated_when_the_only_free_member_goes_before_its_turn() -> None:
    made = GangScheduler([10])
    made.scheduler.put(make_group("a/g").needs(1).obj(), made.now)
    made.put(member("first"))
    assert placed(made.step()) == {"first": "n0"}, "so that the gang lacks nobody"
    free = member("free")
    made.put(member("held").gate("hold"), free)
    made.scheduler.remove(free.obj(), made.now)
    assert made.step() == []
    made.put(member("held"))
    assert placed(made.step(60.0)) == {"held": "n0"}


LESS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins:
    multiPoint:
      enabled: [{name: CapacityScheduling}, {name: Coscheduling}]
      disabled: [{name: %s}]
"""


@pytest.mark.parametrize(
    ("without", "node", "pod"),
    [
        ("NodeAffinity", make_node("n0"), member("m0").selector(disk="ssd")),
        ("TaintToleration", make_node("n0").taint("k"), member("m0")),
    ],
)
def test_a_gang_waits_once_for_a_node_that_its_profile_thinks_nothing_bad_of(
    without: str, node: NodeBuilder, pod: PodBuilder
) -> None:
    """What the filters give it, nobody takes back by a rule that is none for its profile."""
    made = GangScheduler([], load_config(LESS % without, "test"), g=1)
    made.scheduler.put(node.allocatable(cpu=1).obj(), made.now)
    made.put(make_pod("f/v").uid("v").requests(cpu=1).deleting(5.0).on("n0"))
    made.put(pod)
    assert rejected(made.step())["m0"].nominated == "n0"
    assert made.step(later=20.0) == []
