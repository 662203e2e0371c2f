"""Groups in the scheduler itself: time budgets, broken plugins, retries, bindings that fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.config.load import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Decision, Noticed, Placed, Rejected
from scheduler_core.engine.gang.topology_cycle import no_clock
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.names import REASON_SCHEDULER_ERROR, TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.model.writes import Patch
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.plugins.topology_placement import ClusterTopologyPlacementGroup
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_group, make_node, make_pod

PLUGIN = "ClusterTopologyPlacementGroup"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {multiPoint: {enabled: [{name: ClusterTopologyPlacementGroup}]}}
"""


def group(size: int, constraints: str = "", name: str = "g") -> ConfigMap:
    data = {"name": name, "size": str(size), "constraints": constraints}
    meta = {"name": name, "namespace": "a", "uid": name, "labels": {"sakkara.group": ""}}
    return parse_config_map({"metadata": meta, "data": data})


def tree_of_racks(nodes: int) -> ConfigMap:
    """Two nodes in a rack."""
    racks: dict[str, dict[str, Any]] = {}
    for index in range(nodes):
        racks.setdefault(f"rack-{index // 2}", {})[f"node-{index}"] = {}
    meta = {"name": "t", "namespace": "default", "uid": "t", "labels": {"sakkara.topology": ""}}
    data = {"level-names": '["rack", "node"]', "tree": json.dumps(racks)}
    return parse_config_map({"metadata": meta, "data": data})


def scheduler(nodes: int = 3, cpu: str = "4", clock: Callable[[], float] = no_clock) -> Scheduler:
    profiles = build_profiles(load_config(CONFIG), FACTORIES, KNOWN_PLUGINS)
    made = Scheduler(ClusterState(), profiles, initial_backoff=0.0, max_backoff=0.0, clock=clock)
    for index in range(nodes):
        made.put(make_node(f"node-{index}").allocatable(cpu=cpu, memory="64Gi", pods="110").obj(), 0.0)
    return made


def add_members(made: Scheduler, number: int, start: int = 0, now: float = 0.0) -> None:
    for index in range(start, start + number):
        pod = make_pod(f"a/g-{index}").requests(cpu="1").label("sakkara.group.name", "g")
        made.put(pod.obj(), now)


def of(decisions: list[Decision], kind: type[Any]) -> list[Any]:
    return [decision for decision in decisions if isinstance(decision, kind)]


def test_ranks_are_written_before_the_binding() -> None:
    made = scheduler()
    made.put(group(3), 0.0)
    add_members(made, 3)
    placed = of(made.step(1.0), Placed)
    patches = [decision.pre_bind[-1] for decision in placed]
    assert all(
        isinstance(patch, Patch) and patch.uid == decision.pod.uid
        for patch, decision in zip(patches, placed, strict=True)
    )
    labels = [patch.body["metadata"]["labels"] for patch in patches]
    assert [label["sakkara.member.rank"] for label in labels] == ["0", "1", "2"]
    assert {label["sakkara.member.retries"] for label in labels} == {"1"}
    assert made.state.check() == []


def test_every_trial_counts() -> None:
    made = scheduler(nodes=0)
    made.put(group(2), 0.0)
    add_members(made, 2)
    assert len(of(made.step(1.0), Rejected)) == 2
    made.put(make_node("late").allocatable(cpu="4", memory="64Gi", pods="110").obj(), 5.0)
    placed = of(made.step(5.0), Placed)
    labels = placed[0].pre_bind[-1].body["metadata"]["labels"]
    assert labels["sakkara.member.retries"] == "2"
    run = made.state.topology.runs["a/g ConfigMap"]
    assert (run.begin, run.end) == (0.0, 5.0)


def test_a_search_whose_time_is_over_gives_what_it_has_and_says_so() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    made = scheduler(nodes=4, clock=clock)
    made.put(tree_of_racks(4), 0.0)
    made.put(group(6, '{"rack": {"type": "pack", "max": 4}, "node": {"factor": 2}}'), 0.0)
    add_members(made, 6)
    assert len(of(made.step(1.0), Placed)) == 6
    run = made.state.topology.runs["a/g ConfigMap"]
    assert not run.optimal
    assert run.solver_seconds > 0


def test_a_plugin_that_breaks_leaves_nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterTopologyPlacementGroup, "concerns", lambda *_: True)
    made = scheduler()
    made.put(group(3), 0.0)
    add_members(made, 3)
    calls = 0

    def breaks(self: Any, cycle: Any, slot: int) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("broken")
        return original(self, cycle, slot)

    original = type(plugin_of(made)).reserve
    monkeypatch.setattr(type(plugin_of(made)), "reserve", breaks)
    rejected = of(made.step(1.0), Rejected)
    assert {decision.reason for decision in rejected} == {REASON_SCHEDULER_ERROR}
    assert made.state.placed == {}
    assert made.state.check() == []


def plugin_of(made: Scheduler) -> Any:
    (profile,) = made.profiles.values()
    return next(plugin for plugin in profile.plugins if plugin.name == PLUGIN)


def test_a_binding_that_failed_is_decided_again_with_the_others_in_place() -> None:
    made = scheduler()
    made.put(group(3), 0.0)
    add_members(made, 3)
    first = of(made.step(1.0), Placed)
    made.bind_failed(first[1].pod, 2.0)
    (again,) = of(made.step(60.0), Placed)
    assert again.pod.name == first[1].pod.name
    assert again.pre_bind[-1].body["metadata"]["labels"]["sakkara.member.rank"] == "1"


def test_a_faulty_topology_is_told_once() -> None:
    made = scheduler()
    meta = {"name": "t", "namespace": "default", "uid": "t", "labels": {"sakkara.topology": ""}}
    made.put(parse_config_map({"metadata": meta, "data": {"level-names": "["}}), 0.0)
    (notice,) = of(made.step(1.0), Noticed)
    assert (notice.kind, notice.name, notice.reason) == ("ConfigMap", "t", "InvalidTopology")
    assert made.step(2.0) == []


def test_a_group_that_is_deleted_leaves_its_pods_and_no_record() -> None:
    made = scheduler()
    made.put(group(2), 0.0)
    add_members(made, 2)
    made.step(1.0)
    made.remove(group(2), 2.0)
    assert made.state.topology.runs == {}
    assert len(made.state.placed) == 2


def test_a_profile_for_groups_alone_does_not_start_pods_before_their_pod_group_is_known() -> None:
    """The watches of pods and PodGroups are not in step: the group may say that its pods go together."""
    made = scheduler()
    made.put(make_pod("a/p").requests(cpu="1").group("g").obj(), 0.0)
    (waits,) = of(made.step(1.0), Rejected)
    assert waits.message == "PodGroup a/g does not exist; its pods wait until it is created"

    nowhere = (
        make_group("a/g").needs(1).annotation(TOPOLOGY_CONSTRAINTS_ANNOTATION, '{"row": {"type": "pack"}}')
    )
    made.put(nowhere.obj(), 2.0)
    (waits,) = of(made.step(3.0), Rejected)
    assert "row: is not a level of the topology" in waits.message

    unconstrained = make_group("a/g").needs(1)
    made.put(unconstrained.obj(), 4.0)
    assert [decision.pod.name for decision in of(made.step(5.0), Placed)] == ["p"]
