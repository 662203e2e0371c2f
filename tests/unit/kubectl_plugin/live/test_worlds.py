"""Worlds answer questions about a changed cluster, each from the cluster as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_plugin.live.forked_world import ForkedWorld, world_of
from scheduler_core.answers.changes import NOTHING, Changes
from scheduler_core.answers.run_result import RunResult, run
from scheduler_core.answers.worlds import CopiedWorld, World
from scheduler_core.errors import MusterError
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NODES, POD_GROUPS, PODS
from scheduler_core.simulate.world import Simulation

QUOTA = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {
        "name": "quota",
        "namespace": "a",
        "uid": "quota",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"min": {"cpu": "8"}, "max": {"cpu": "3"}},
}


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {"allocatable": {"cpu": "4", "pods": "10"}},
    }


def pod(name: str, cpu: str, at: str = "") -> dict[str, Any]:
    requests = {"resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "muster-scheduler", "containers": [requests], **({"nodeName": at} if at else {})}
    phase = "Running" if at else "Pending"
    meta = {
        "name": name,
        "namespace": "a",
        "uid": name,
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def cluster() -> Simulation:
    """A node of 4 CPUs with a pod of 1, a pod of 3 that waits, and a quota with a max of 3."""
    simulation = Simulation(now=1_800_000_000.0)
    simulation.load(NODES, json.dumps(node("n")).encode())
    simulation.load(ELASTIC_QUOTAS, json.dumps({**QUOTA, "spec": {"max": {"cpu": "3"}}}).encode())
    for obj in (pod("old", "1", "n"), pod("new", "3")):
        simulation.load(PODS, json.dumps(obj).encode())
    return simulation


@pytest.fixture(params=[CopiedWorld, ForkedWorld])
def world(request: pytest.FixtureRequest) -> World:
    made: World = request.param(cluster())
    return made


def test_questions_do_not_change_the_world(world: World) -> None:
    raised = Changes(update=({**QUOTA, "spec": {"max": {"cpu": "4"}}},))
    gone = Changes(delete=({"kind": "Pod", "metadata": {"namespace": "a", "name": "old"}},))
    waits = world.ask(NOTHING, run, RunResult)
    assert [item.pod for item in waits.waiting] == ["a/new"]
    assert "max" in waits.waiting[0].message
    for change in (raised, gone):
        assert world.ask(change, run, RunResult).node_of("a/new") == "n"
    assert world.ask(NOTHING, run, RunResult) == waits


def test_changes_combine(world: World) -> None:
    smaller = Changes(
        update=({"kind": "Node", **node("n"), "status": {"allocatable": {"cpu": "3", "pods": "9"}}},)
    )
    raised = Changes(update=({**QUOTA, "spec": {"max": {"cpu": "4"}}},))
    assert world.ask(smaller + raised, run, RunResult).node_of("a/new") == ""


def test_an_evicted_pod_is_told_with_its_preemptor(world: World) -> None:
    urgent = {"kind": "Pod", **pod("urgent", "3")}
    urgent["spec"] = {**urgent["spec"], "priority": 100}
    found = world.ask(Changes(create=(urgent,)), run, RunResult)
    assert found.node_of("a/urgent") == "n"
    assert [(item.pod, item.preemptor) for item in found.evicted] == [("a/old", "a/urgent")]


def test_what_cannot_be_changed_is_an_error_of_one_line(world: World) -> None:
    unknown = Changes(delete=({"kind": "Pod", "metadata": {"namespace": "a", "name": "nobody"}},))
    with pytest.raises(MusterError) as raised:
        world.ask(unknown, run, RunResult)
    assert "Pod a/nobody does not exist" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("pods", "kind"), [(3, CopiedWorld), (2000, ForkedWorld)], ids=["small", "large"])
def test_a_small_cluster_is_copied_and_a_large_one_forked(pods: int, kind: type[World]) -> None:
    simulation = Simulation(now=1_800_000_000.0)
    simulation.load_list(PODS, [json.dumps(pod(f"p{number}", "1")).encode() for number in range(pods)])
    assert isinstance(world_of(simulation), kind)


def test_a_group_that_was_listed_is_found_by_its_name() -> None:
    simulation = Simulation(now=1_800_000_000.0)
    group = {"metadata": {**node("gang")["metadata"], "namespace": "a"}, "spec": {"minMembers": 2}}
    simulation.load(POD_GROUPS, json.dumps(group).encode())
    found = simulation.get("PodGroup", "a", "gang")
    assert found is not None
    simulation.update({**found, "spec": {"minMembers": 3}})
    assert [gang.min_members for gang in simulation.state.gangs.gangs.values()] == [3]
