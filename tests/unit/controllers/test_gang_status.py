"""The status of PodGroups: phase, counts, conditions, and when it is written."""

from __future__ import annotations

import pytest

from scheduler_core.controllers.gang_status import GangStatusController, phase_of
from scheduler_core.model.writes import Patch
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census
from tests.support.builders import make_group, make_node, make_pod

GANG = make_group("a/g").needs(3).uid("g1").version("7").obj()


def counts(
    allocated: int = 0, waiting: int = 0, running: int = 0, succeeded: int = 0, failed: int = 0
) -> Census:
    return Census(allocated + waiting + succeeded + failed, allocated, waiting, running, succeeded, failed)


@pytest.mark.parametrize(
    ("census", "phase"),
    [
        pytest.param(counts(), "Pending", id="no pods yet"),
        pytest.param(counts(waiting=3), "Pending", id="all wait"),
        pytest.param(counts(allocated=3), "Scheduled", id="all have a node, none runs yet"),
        pytest.param(counts(allocated=3, running=3), "Running", id="enough run"),
        pytest.param(
            counts(allocated=2, running=2, succeeded=1), "Running", id="some are done, the rest runs"
        ),
        pytest.param(counts(succeeded=3), "Succeeded", id="all are done"),
        pytest.param(counts(failed=3), "Failed", id="all failed"),
        pytest.param(counts(failed=3, waiting=3), "Pending", id="failed, and there is a next try"),
        pytest.param(counts(failed=3, allocated=3, running=3), "Running", id="failed once, runs again"),
        pytest.param(counts(allocated=1, running=1, waiting=1), "Unschedulable", id="torn apart"),
    ],
)
def test_phase(census: Census, phase: str) -> None:
    assert phase_of(GANG, census) == phase


def cluster() -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_gang(GANG)
    return state


def test_the_first_status_has_every_count_and_condition() -> None:
    state = cluster()
    for name in ("p0", "p1"):
        state.put_pod(make_pod(f"a/{name}").uid(name).group("g").on("n").obj(), 0.0)
    (patch,) = GangStatusController().reconcile(state, 10.0)
    assert isinstance(patch, Patch)
    assert (patch.subresource, patch.uid, patch.resource_version) == ("status", "g1", "7")
    assert isinstance(patch.body, dict)
    status = patch.body["status"]
    conditions = {item["type"]: (item["status"], item["reason"]) for item in status.pop("conditions")}
    assert status == {"phase": "Unschedulable", "admitted": 2, "running": 2, "succeeded": 0, "failed": 0}
    assert conditions == {
        "Scheduled": ("False", "GangWaits"),
        "Unschedulable": ("True", "BelowMinMembers"),
    }


def test_a_status_that_says_all_that_already_is_not_written_again() -> None:
    state = cluster()
    (patch,) = GangStatusController().reconcile(state, 10.0)
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    told = make_group("a/g").needs(3).uid("g1").version("8")
    told.raw["status"] = patch.body["status"]
    state.put_gang(told.obj())
    assert GangStatusController().reconcile(state, 50.0) == []


def test_changes_within_a_second_wait_and_are_not_lost() -> None:
    state, controller = cluster(), GangStatusController()
    assert len(controller.reconcile(state, 10.0)) == 1
    assert controller.next_time(state) is None
    state.put_pod(make_pod("a/p").uid("p").group("g").obj(), 10.2)
    assert controller.reconcile(state, 10.5) == []
    assert controller.next_time(state) == 11.0
    assert len(controller.reconcile(state, 11.0)) == 1


def test_groups_that_others_own_are_left_alone() -> None:
    state = ClusterState()
    state.put_pod(make_pod("a/p").label("scheduling.x-k8s.io/pod-group", "x").obj(), 0.0)
    state.put_pod(make_pod("a/q").group("absent").obj(), 0.0)
    assert GangStatusController().reconcile(state, 10.0) == []
    assert state.gangs.dirty == set()
