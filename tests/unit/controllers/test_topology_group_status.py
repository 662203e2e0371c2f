"""Results of groups: written when they change, never more often than due, users' fields untouched."""

from __future__ import annotations

from typing import Any

from scheduler_core.controllers.topology_group_status import TopologyGroupStatus
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.writes import Patch
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import GroupRun, TopologySettings
from tests.support.builders import make_node, make_pod


def state_of(placed: int, **data: str) -> ClusterState:
    """A flat cluster of two nodes; the group wants two members, of which some have a node."""
    state = ClusterState()
    state.topology.settings["muster-scheduler"] = TopologySettings()
    for index in range(2):
        state.put_node(make_node(f"node-{index}").allocatable(cpu="4", memory="4Gi", pods="9").obj())
    put_group(state, **data)
    for index in range(2):
        pod = make_pod(f"a/g-{index}").requests(cpu="1").label("sakkara.group.name", "g")
        state.put_pod((pod.on(f"node-{index}") if index < placed else pod).obj())
    return state


def put_group(state: ClusterState, **data: str) -> None:
    meta = {"name": "c", "namespace": "a", "uid": "u", "labels": {"sakkara.group": ""}}
    found = parse_config_map({"metadata": meta, "data": {"name": "g", "size": "2", **data}})
    for gang in state.config_maps.put(found).come:
        state.put_gang(gang)


def written(state: ClusterState, now: float = 10.0, controller: Any = None) -> dict[str, Any]:
    """What is patched into the ConfigMap's data; empty if nothing is."""
    writes = (controller or TopologyGroupStatus()).reconcile(state, now)
    if not writes:
        return {}
    (patch,) = writes
    assert isinstance(patch, Patch)
    assert (patch.resource.plural, patch.namespace, patch.name, patch.uid) == ("configmaps", "a", "c", "u")
    assert isinstance(patch.body, dict)
    assert list(patch.body) == ["data"]
    found: dict[str, Any] = patch.body["data"]
    assert not {"name", "size", "priority", "constraints"} & set(found)
    return found


def test_members_that_all_have_a_node_are_bound() -> None:
    found = written(state_of(2))
    assert found["status"] == "Bound"
    assert found["rank"] == "[(g-0,0) (g-1,1)]"


def test_a_group_that_lacks_members_is_pending_with_its_reason() -> None:
    state = state_of(1)
    state.topology.runs["a/g ConfigMap"] = GroupRun(begin=5.0, reason="no room")
    found = written(state)
    assert (found["status"], found["reason"]) == ("Pending", "no room")
    assert found["schedBeginTime"] == "1970-01-01T00:00:05.000000Z"
    assert "schedEndTime" not in found


def test_equal_results_are_not_written_again() -> None:
    first = written(state_of(2))
    assert written(state_of(2, **first)) == {}


def test_constraints_that_no_profile_enforces_have_a_condition_that_says_so() -> None:
    state = state_of(2)
    state.topology.settings.clear()
    assert written(state)["reason"] == (
        "not enforced: 2 of 2 members are with muster-scheduler, and no profile of that name has "
        "ClusterTopologyPlacementGroup; the constraints are preferences, so they run without them"
    )


def test_outdated_results_are_removed() -> None:
    found = written(state_of(0, status="Bound", placement="{}", rank="[]", reason="old"))
    assert found == {"status": "Pending", "placement": None, "rank": None, "reason": None}


def test_times_of_an_earlier_process_stay() -> None:
    found = written(state_of(2, schedEndTime="then", schedTotalTimeMilli="7"))
    assert not {"schedEndTime", "schedTotalTimeMilli"} & set(found)


def test_a_group_is_written_at_most_once_a_second() -> None:
    state, controller = state_of(2), TopologyGroupStatus()
    assert written(state, 10.0, controller)
    put_group(state, status="Pending")
    assert written(state, 10.4, controller) == {}
    assert controller.next_time(state) == 11.0
    assert written(state, 11.0, controller)["status"] == "Bound"
    assert controller.next_time(state) is None


def test_a_group_without_its_config_map_gets_no_status() -> None:
    state = ClusterState()
    state.put_pod(make_pod("a/g-0").label("sakkara.group.name", "g").obj())
    assert written(state) == {}
