"""How many members fit on every node of the tree, against counting them one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from scheduler_core.engine.gang.topology_slots import Slots, leaf_capacity, slots_for
from scheduler_core.framework.status import Code, Status
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.unit.engine.topology_scheduler import TopologyScheduler, member


def ask(made: TopologyScheduler, *pods: PodBuilder) -> Slots | Status:
    profile = next(iter(made.scheduler.profiles.values()))
    tree = made.state.topology.tree(profile.name)
    return slots_for(made.scheduler.cycle, tree, [(profile, pod.obj()) for pod in pods], made.now)


def slots(made: TopologyScheduler, *pods: PodBuilder) -> Slots:
    found = ask(made, *pods)
    assert isinstance(found, Slots)
    return found


def nominate(made: TopologyScheduler, name: str, node: str, cpu: int, priority: int = 9) -> None:
    pod = make_pod(f"b/{name}").uid(name).requests(cpu=cpu).priority(priority).obj()
    made.state.nominations.put(pod, node, made.state.vector(pod))


@every_seed(range(40))
def test_slots_are_what_is_left_by_the_largest_request(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 9) for _ in range(4)]
    made = TopologyScheduler(*sizes)
    free = []
    closed, ssd = set(), set()
    for number, cpu in enumerate(sizes):
        memory = rng.randint(0, 9)
        node = make_node(f"n{number}").allocatable(cpu=cpu, memory=memory)
        if rng.random() < 0.2:
            closed.add(number)
            node.taint("t")
        if rng.random() < 0.6:
            ssd.add(number)
            node.label("disk", "ssd")
        made.put(node)
        free.append([cpu, memory])
    idle = [list(left) for left in free]
    running: dict[str, tuple[int, int, int]] = {}
    for number in range(rng.randint(0, 4)):
        slot, cpu, memory = rng.randrange(4), rng.randint(0, 3), rng.randint(0, 3)
        made.put(make_pod(f"f/x{number}").uid(f"x{number}").requests(cpu=cpu, memory=memory).on(f"n{slot}"))
        running[f"x{number}"] = slot, cpu, memory
    if rng.random() < 0.5:
        slot, cpu = rng.randrange(4), rng.randint(1, 2)
        nominate(made, "w", f"n{slot}", cpu)
        free[slot][0] -= cpu
    asked = [(rng.randint(1, 3), rng.randint(0, 2), rng.random() < 0.3) for _ in range(rng.randint(1, 3))]
    pods = []
    for number, (cpu, memory, fast) in enumerate(asked):
        pod = member("g", number).requests(cpu=cpu, memory=memory)
        pods.append(pod.selector(disk="ssd") if fast else pod)
    found = slots(made, *pods)
    largest = [max(item[kind] for item in asked) for kind in (0, 1)]
    refused = closed | (set(range(4)) - ssd if any(item[2] for item in asked) else set())

    def expected(room: list[list[int]], gone: set[str]) -> list[int]:
        left = [list(item) for item in room]
        for name, (slot, cpu, memory) in running.items():
            if name not in gone:
                left[slot][0] -= cpu
                left[slot][1] -= memory
        counts = []
        for slot in range(4):
            fits = [max(left[slot][kind], 0) // largest[kind] for kind in (0, 1) if largest[kind]]
            counts.append(0 if slot in refused else min(fits))
        return counts

    assert leaf_capacity(made.state, found).tolist() == expected(free, set())
    for name in running:
        assert leaf_capacity(made.state, found, {name}).tolist() == expected(free, {name})
    assert leaf_capacity(made.state, found, running).tolist() == expected(free, set(running))
    assert leaf_capacity(made.state, found, idle=True).tolist() == expected(idle, set(running))
    assert found.mixed is (len({item[:2] for item in asked}) > 1)
    assert found.request[: len(found.request)].tolist()[0] == largest[0] * 1000
    assert ("TaintToleration" in found.refusing) is bool(closed)
    assert found.refusal is None


def test_a_pod_without_requests_needs_only_room_for_pods() -> None:
    made = TopologyScheduler(1)
    made.put(make_node("n0").allocatable(cpu=1, pods=3))
    made.put(make_pod("f/x").uid("x").on("n0"))
    assert leaf_capacity(made.state, slots(made, member("g", 0, 0))).tolist() == [2]


def test_a_port_of_the_node_leaves_room_for_one() -> None:
    made = TopologyScheduler(4, 4)
    pods = [member("g", 0), member("g", 1)]
    assert not slots(made, *pods).ports
    pods[1].raw["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 80}]
    assert leaf_capacity(made.state, slots(made, *pods)).tolist() == [1, 1]
    made.put(make_pod("f/x").uid("x").requests(cpu=4).on("n0"))
    assert leaf_capacity(made.state, slots(made, *pods)).tolist() == [0, 1]


# A leaf may name a node that is not there, and nodes may stand outside the tree.


def test_a_leaf_has_the_room_of_its_own_node() -> None:
    made = TopologyScheduler(1, 2, 3)
    made.put(make_node("elsewhere").allocatable(cpu=40))
    assert leaf_capacity(made.state, slots(made, member("g", 0))).tolist() == [1, 2, 3]
    made.scheduler.remove(make_node("n1").allocatable(cpu=2).obj(), made.now)
    assert leaf_capacity(made.state, slots(made, member("g", 0))).tolist() == [1, 0, 3]
    assert slots(made, member("g", 0)).nodes.tolist()[1] == -1


def test_without_any_node_there_is_no_room() -> None:
    made = TopologyScheduler(1)
    made.scheduler.remove(make_node("n0").allocatable(cpu=1).obj(), made.now)
    assert leaf_capacity(made.state, slots(made, member("g", 0))).tolist() == [0]


# What nominated pods will take


@pytest.mark.parametrize(
    ("name", "node", "priority", "left"),
    [
        pytest.param("w", "n0", 9, [3, 4], id="who goes first takes its room"),
        pytest.param("w", "n1", 9, [4, 3], id="on its own node"),
        pytest.param("w", "n0", -1, [4, 4], id="who goes behind takes none"),
        pytest.param("w", "gone", 9, [4, 4], id="a node that is not there"),
        pytest.param("g-1", "n0", 9, [4, 4], id="a member of the group"),
    ],
)
def test_room_for_nominated_pods(name: str, node: str, priority: int, left: list[int]) -> None:
    made = TopologyScheduler(4, 4)
    nominate(made, name, node, 1, priority)
    found = slots(made, member("g", 0), member("g", 1))
    assert leaf_capacity(made.state, found).tolist() == left
    assert leaf_capacity(made.state, found, idle=True).tolist() == [4, 4]


def test_two_that_go_first_take_both_their_room() -> None:
    made = TopologyScheduler(4, 4)
    nominate(made, "w", "n0", 1)
    nominate(made, "v", "n0", 2)
    assert leaf_capacity(made.state, slots(made, member("g", 0))).tolist() == [1, 4]


# Refusals before the nodes


def test_a_refusal_that_evictions_may_change_is_kept_with_the_slots() -> None:
    made = TopologyScheduler(4, quotas=True)
    made.put(make_quota("a/q").min(cpu=9).max(cpu=1))
    made.put(make_pod("a/x").uid("x").requests(cpu=1).on("n0"))
    found = slots(made, member("g", 0), member("g", 1, 2))
    assert found.refusal is not None
    assert found.refusal.plugin == "CapacityScheduling"
    assert "requested 1" in found.refusal.reason, "what the first is told"
    assert "CapacityScheduling" in found.refusing
    assert leaf_capacity(made.state, found).tolist() == [1]


def test_a_refusal_that_nothing_changes_is_the_answer() -> None:
    made = TopologyScheduler(4)
    found = ask(made, member("g", 0), member("g", 1, 2).spec(resourceClaims=[{"name": "gpu"}]))
    assert isinstance(found, Status)
    assert found.code is Code.UNRESOLVABLE


def test_a_refusal_of_the_class_is_one_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(4)
    refused = Status(Code.UNSCHEDULABLE, "not this kind", "Kind")
    original: Any = type(made.scheduler.cycle).scores_for

    def scores_for(self: Any, profile: Any, cycle: Any) -> Any:
        found = original(self, profile, cycle)
        found.status = refused
        return found

    monkeypatch.setattr(type(made.scheduler.cycle), "scores_for", scores_for)
    assert slots(made, member("g", 0)).refusal is refused


def test_the_filters_of_resources_are_counted_and_no_verdict() -> None:
    made = TopologyScheduler(4, 4)
    made.put(make_pod("f/x").uid("x").requests(cpu=4).on("n0"))
    found = slots(made, member("g", 0))
    assert found.passes[:2].tolist() == [True, True]
    assert found.refusing == {"NodeResourcesFit"}
    assert leaf_capacity(made.state, found, {"x"}).tolist() == [4, 4]
    assert np.array_equal(found.room, np.zeros_like(found.room))


def test_a_zone_that_a_nominated_pod_closes_has_no_slot() -> None:
    made = TopologyScheduler(2, 2, 2)
    for number, zone in enumerate(("east", "east", "west")):
        made.put(make_node(f"n{number}").allocatable(cpu=2).label("zone", zone))
    term = {"labelSelector": {"matchLabels": {"app": "blue"}}, "namespaces": ["a"], "topologyKey": "zone"}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    waiting = make_pod("b/w").uid("w").requests(cpu=0).priority(9).spec(affinity=rules).obj()
    made.state.nominations.put(waiting, "n0", made.state.vector(waiting))
    found = slots(made, member("g", 0).requests(cpu=1).labels(app="blue"))
    assert found.passes.tolist() == [False, False, True]
    assert slots(made, member("g", 0).requests(cpu=1).labels(app="red")).passes.all()
