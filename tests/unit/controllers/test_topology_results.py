"""Results of PodGroups on the topology: an annotation, written over the version that was read, retried."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from scheduler_core.controllers.topology_group_status import MOST_ANNOTATION, TopologyGroupStatus
from scheduler_core.controllers.topology_results import shortened
from scheduler_core.model.groups.gang import Gang, dialect_of, parse_gang, parse_x_gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.kinds import CONFIG_MAPS, NATIVE_POD_GROUPS, POD_GROUPS, X_POD_GROUPS
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION, TOPOLOGY_RESULTS_ANNOTATION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Patch
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import GroupRun, TopologySettings
from tests.support.builders import make_node, make_pod

KEYS = {"seed": "a/g PodGroup", "x": "a/g x-PodGroup", "native": "a/g native-PodGroup"}
RESOURCES = {"seed": POD_GROUPS, "x": X_POD_GROUPS, "native": NATIVE_POD_GROUPS}
CONSTRAINTS = '{"node": {"type": "spread"}}'


def gang(
    dialect: str = "seed", constraints: str = CONSTRAINTS, results: str = "", version: str = "7"
) -> Gang:
    notes = {TOPOLOGY_CONSTRAINTS_ANNOTATION: constraints, TOPOLOGY_RESULTS_ANNOTATION: results}
    meta = {"name": "g", "namespace": "a", "uid": "u", "resourceVersion": version}
    meta |= {"annotations": {key: text for key, text in notes.items() if text}}  # type: ignore[dict-item]
    if dialect == "x":
        return parse_x_gang({"metadata": meta, "spec": {"minMember": 2}})
    if dialect == "native":
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        return parse_native_gang({"metadata": meta, "spec": spec})
    return parse_gang({"metadata": meta, "spec": {"minMembers": 2}})


def member(dialect: str, index: int) -> Pod:
    pod = make_pod(f"a/g-{index}").requests(cpu="1")
    if dialect == "x":
        pod = pod.label("scheduling.x-k8s.io/pod-group", "g")
    elif dialect == "native":
        pod.raw["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    else:
        pod = pod.group("g")
    return pod.on(f"node-{index}").obj()


def state_of(found: Gang, dialect: str = "seed", members: int = 2) -> ClusterState:
    """A flat cluster of two nodes, with so many members on them."""
    state = ClusterState()
    state.topology.settings["muster-scheduler"] = TopologySettings()
    for index in range(2):
        state.put_node(make_node(f"node-{index}").allocatable(cpu="4", memory="4Gi", pods="9").obj())
    state.put_gang(found)
    for index in range(members):
        state.put_pod(member(dialect, index))
    return state


def written(state: ClusterState, now: float = 10.0, controller: TopologyGroupStatus | None = None) -> Any:
    """The annotation that is written: its fields, None where it is removed, "" where nothing is written."""
    writes = (controller or TopologyGroupStatus()).reconcile(state, now)
    if not writes:
        return ""
    (patch,) = writes
    assert isinstance(patch, Patch)
    assert (patch.namespace, patch.name, patch.uid, patch.subresource) == ("a", "g", "u", "")
    assert isinstance(patch.body, dict)
    text = patch.body["metadata"]["annotations"][TOPOLOGY_RESULTS_ANNOTATION]
    return None if text is None else json.loads(text)


@pytest.mark.parametrize("dialect", list(KEYS))
def test_a_placed_pod_group_says_where_its_members_are(dialect: str) -> None:
    state = state_of(gang(dialect), dialect)
    (patch,) = TopologyGroupStatus().reconcile(state, 10.0)
    assert isinstance(patch, Patch)
    assert (patch.resource, patch.resource_version) == (RESOURCES[dialect], "7")
    state.gangs.group_dirty.add(KEYS[dialect])
    assert written(state) == {
        "status": "Bound",
        "placement": {"root": {"node-0": {"g-0": {}}, "node-1": {"g-1": {}}}},
        "rank": "[(g-0,0) (g-1,1)]",
    }


def test_equal_results_are_not_written_again() -> None:
    state = state_of(gang())
    text = json.dumps(written(state), separators=(",", ":"), sort_keys=True)
    state.put_gang(gang(results=text, version="8"))
    assert written(state) == ""


def test_times_of_an_earlier_process_stay_and_a_reason_that_is_over_goes() -> None:
    state = state_of(gang(results='{"schedEndTime":"then","reason":"old","status":"Pending"}'))
    found = written(state)
    assert (found["schedEndTime"], found["status"], "reason" in found) == ("then", "Bound", False)


@pytest.mark.parametrize("text", ["{", "[]", "null", "[" * 100_000])
def test_an_annotation_that_another_client_wrote_is_replaced(text: str) -> None:
    assert written(state_of(gang(results=text)))["status"] == "Bound"


def test_a_group_that_was_not_tried_yet_has_no_message() -> None:
    assert written(state_of(gang(), members=0)) == ""


def test_a_group_that_waits_says_why() -> None:
    state = state_of(gang(), members=0)
    for name in ("g-0", "g-1"):
        state.put_pod(make_pod(f"a/{name}").uid(name).group("g").obj())
    state.topology.runs[KEYS["seed"]] = GroupRun(begin=5.0, reason="no room")
    found = written(state)
    assert (found["status"], found["reason"]) == ("Pending", "no room")
    assert found["schedBeginTime"] == "1970-01-01T00:00:05.000000Z"


def test_results_about_former_pods_are_removed() -> None:
    state = state_of(gang(), members=1)
    state.topology.runs[KEYS["seed"]] = GroupRun(begin=5.0, reason="PodGroup a/g has size 2: 0 pods wait")
    assert written(state)["reason"] == (
        "PodGroup a/g needs minMembers 2: 0 pods wait, 1 has a node, 0 succeeded"
    )
    gone = state_of(gang(results='{"reason":"2 pods wait","status":"Pending"}'), members=0)
    assert written(gone)["reason"] == "PodGroup a/g needs minMembers 2: it has no pods"


def test_without_constraints_there_are_no_results_and_old_ones_are_removed() -> None:
    assert written(state_of(gang(constraints=""))) == ""
    assert written(state_of(gang(constraints="", results='{"status":"Bound"}'))) is None


def test_a_write_that_does_not_come_back_is_tried_again_after_growing_times() -> None:
    state, controller = state_of(gang()), TopologyGroupStatus()
    due = [10.0]
    for _ in range(9):
        assert written(state, due[-1], controller)["status"] == "Bound"
        state.gangs.mark(gang().ref)  # as after a refusal
        due.append(controller.next_time(state) or 0.0)
        assert written(state, due[-1] - 0.01, controller) == ""
    assert [later - sooner for sooner, later in pairwise(due)] == [
        1, 2, 4, 8, 16, 32, 64, 64, 64
    ]  # fmt: skip


def test_something_new_does_not_wait_for_the_retry_of_something_old() -> None:
    state, controller = state_of(gang()), TopologyGroupStatus()
    for now in (10.0, 11.0, 13.0):
        assert written(state, now, controller) != ""
        state.gangs.mark(gang().ref)
    text = json.dumps({"status": "Pending"})
    state.put_gang(gang(results=text, version="8"))
    assert written(state, 17.0, controller) != ""
    assert controller.next_time(state) is None


def test_constraints_that_no_longer_hold_on_the_tree_cost_only_a_figure() -> None:
    state = state_of(gang(constraints='{"rack": {"type": "pack"}}'))
    tree = state.topology.tree("default-scheduler")
    slots = np.array([tree.leaf_index[node] for node in ("node-0", "node-1")]) + 4
    run = GroupRun(begin=5.0, end=6.0, idle=(tree, slots))
    state.topology.runs[KEYS["seed"]] = run
    found = written(state)
    assert found["hopCost"] == "4"
    assert "bestHopCost" not in found


def test_the_best_hop_cost_is_worked_out_once_and_for_the_tree_of_the_placement() -> None:
    state = state_of(gang(constraints='{"node": {"type": "pack"}}'))
    tree = state.topology.tree("default-scheduler")
    slots = np.array([tree.leaf_index[node] for node in ("node-0", "node-1")]) + 4
    run = GroupRun(begin=5.0, end=6.0, idle=(tree, slots))
    state.topology.runs[KEYS["seed"]] = run
    assert written(state)["bestHopCost"] == "2"
    assert run.idle is None
    state.put_node(make_node("node-2").allocatable(cpu="4", memory="4Gi", pods="9").obj())
    run.idle, run.best_hops = (tree, slots), None
    state.gangs.mark(gang().ref)
    assert "bestHopCost" not in written(state)


def test_results_that_no_object_can_hold_lose_the_placement_first() -> None:
    fields = {"status": "Bound", "placement": "p" * 60, "rank": "r" * 60}
    assert shortened(fields, 200) == fields
    assert shortened(fields, 100) == {"status": "Bound", "placement": "", "rank": "r" * 60}
    assert shortened(fields, 50) == {"status": "Bound", "placement": "", "rank": ""}
    assert MOST_ANNOTATION < 256 * 1024


def test_only_pod_groups_have_a_dialect() -> None:
    assert [dialect_of(resource) for resource in (*RESOURCES.values(), CONFIG_MAPS)] == [
        "PodGroup", "x-PodGroup", "native-PodGroup", None
    ]  # fmt: skip
