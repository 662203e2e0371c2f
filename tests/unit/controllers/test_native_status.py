"""The conditions of native PodGroups: what is written, what is final, what belongs to others."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.timestamps import format_time
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import TopologySettings
from tests.support.builders import make_pod

TYPE = "PodGroupInitiallyScheduled"
KEY = "a/g native-PodGroup"


def native(
    conditions: list[dict[str, Any]] | None = None,
    *,
    version: str = "v1beta1",
    generation: int = 1,
    uid: str = "u",
    resource_version: str = "7",
    topology: str = "",
) -> Gang:
    meta = {"name": "g", "namespace": "a", "uid": uid, "resourceVersion": resource_version}
    constraints = {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    raw = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {**meta, "generation": generation},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **constraints},
        "status": {"conditions": conditions or []},
    }
    return parse_native_gang(raw, version)


def told(
    status: str, reason: str, message: str, seconds: float = 5.0, generation: int = 1, type_: str = TYPE
) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(seconds),
        "observedGeneration": generation,
    }


def cluster(gang: Gang) -> ClusterState:
    state = ClusterState()
    state.put_gang(gang)
    return state


def conditions(writes: list[Write]) -> list[dict[str, Any]]:
    """The conditions of the one write; it must name the object that was read, and the status alone."""
    (patch,) = writes
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    assert (patch.subresource, patch.uid, patch.resource_version) == ("status", "u", "7")
    assert patch.body.keys() == {"status"}
    assert patch.body["status"].keys() == {"conditions"}
    found: list[dict[str, Any]] = patch.body["status"]["conditions"]
    return found


def test_before_the_first_cycle_nothing_is_written() -> None:
    state = cluster(native())
    state.put_pod(make_pod("a/p").uid("p").obj(), 0.0)
    assert GangStatusController().reconcile(state, 10.0) == []


@pytest.mark.parametrize(
    ("version", "type_"),
    [("v1", TYPE), ("v1beta1", TYPE), ("v1alpha3", TYPE), ("v1alpha2", "PodGroupScheduled")],
)
@pytest.mark.parametrize(
    ("reason", "status"), [("Unschedulable", "False"), ("SchedulerError", "False"), ("Scheduled", "True")]
)
def test_the_outcome_of_a_cycle_is_a_condition(version: str, type_: str, reason: str, status: str) -> None:
    state = cluster(native(version=version, generation=3))
    state.gangs.verdicts.decided(KEY, reason, "why")
    found = conditions(GangStatusController().reconcile(state, 10.0))
    assert found == [told(status, reason, "why", 10.0, 3, type_)]


@pytest.mark.parametrize(
    ("before", "reason", "message", "after"),
    [
        pytest.param(
            told("False", "Unschedulable", "x"), "Unschedulable", "x", None, id="nothing new after a restart"
        ),
        pytest.param(
            told("False", "Unschedulable", "x"),
            "Unschedulable",
            "y",
            told("False", "Unschedulable", "y"),
            id="another message keeps the time",
        ),
        pytest.param(
            told("False", "Unschedulable", "x"),
            "SchedulerError",
            "x",
            told("False", "SchedulerError", "x"),
            id="another reason keeps the time",
        ),
        pytest.param(
            told("False", "Unschedulable", "x"),
            "Scheduled",
            "y",
            told("True", "Scheduled", "y", 10.0),
            id="started",
        ),
        pytest.param(told("True", "Scheduled", "x"), "Unschedulable", "y", None, id="started is final"),
        pytest.param(told("True", "Scheduled", "x"), "SchedulerError", "y", None, id="also for errors"),
        pytest.param(
            told("True", "Scheduled", "x"),
            "Scheduled",
            "y",
            told("True", "Scheduled", "y"),
            id="the text of a later success",
        ),
        pytest.param(
            told("False", "Unschedulable", "x", 5.0, 0),
            "Unschedulable",
            "x",
            told("False", "Unschedulable", "x"),
            id="the generation is new",
        ),
    ],
)
def test_what_follows_on_a_condition_that_is_there(
    before: dict[str, Any], reason: str, message: str, after: dict[str, Any] | None
) -> None:
    state = cluster(native([before]))
    state.gangs.verdicts.decided(KEY, reason, message)
    writes = GangStatusController().reconcile(state, 10.0)
    assert (conditions(writes) if writes else None) == ([after] if after else None)


def test_conditions_of_others_are_sent_back_as_they_were() -> None:
    others = [
        told("True", "Admitted", "by a queue", 2.0, 4, "QuotaReserved"),
        {"type": "Ready", "status": "Unknown", "reason": "", "message": ""},
    ]
    state = cluster(native([others[0], told("False", "Unschedulable", "x"), others[1]]))
    state.gangs.verdicts.decided(KEY, "Scheduled", "y")
    found = conditions(GangStatusController().reconcile(state, 10.0))
    assert found == [others[0], told("True", "Scheduled", "y", 10.0), others[1]]


def test_a_disruption_is_told_next_to_the_outcome_and_stays() -> None:
    state = cluster(native([told("True", "Scheduled", "x")]))
    state.gangs.verdicts.disrupted(KEY, "preempted by pod b/king", 9.0)
    found = conditions(GangStatusController().reconcile(state, 10.0))
    text = "preempted by pod b/king, at 1970-01-01T00:00:09Z"
    target = told("True", "PreemptionByScheduler", text, 9.0, 1, "DisruptionTarget")
    assert found == [told("True", "Scheduled", "x"), target]
    again = cluster(native([told("True", "Scheduled", "x"), target]))
    again.gangs.verdicts.decided(KEY, "Scheduled", "x")
    assert GangStatusController().reconcile(again, 20.0) == []


def test_a_start_is_not_lost_to_a_failure_within_the_rate_limit() -> None:
    state, controller = cluster(native()), GangStatusController()
    state.gangs.verdicts.decided(KEY, "Unschedulable", "no room")
    assert len(controller.reconcile(state, 10.0)) == 1
    state.gangs.verdicts.decided(KEY, "Scheduled", "all")
    assert controller.reconcile(state, 10.2) == []
    state.gangs.verdicts.decided(KEY, "Unschedulable", "a later member waits")
    assert conditions(controller.reconcile(state, 11.0)) == [told("True", "Scheduled", "all", 11.0)]


def test_a_spec_that_no_cycle_has_seen_yet_is_not_observed() -> None:
    state, controller = cluster(native([told("False", "Unschedulable", "x")])), GangStatusController()
    state.gangs.verdicts.decided(KEY, "Unschedulable", "x")
    state.put_gang(native([told("False", "Unschedulable", "x")], generation=2))
    assert controller.reconcile(state, 10.0) == []
    state.gangs.verdicts.decided(KEY, "Unschedulable", "x")
    found = conditions(controller.reconcile(state, 20.0))
    assert found == [told("False", "Unschedulable", "x", generation=2)]


def test_a_group_of_the_same_name_begins_anew() -> None:
    state = cluster(native(uid="old"))
    state.gangs.verdicts.decided(KEY, "Scheduled", "all")
    state.put_gang(native(uid="u"))
    assert GangStatusController().reconcile(state, 10.0) == []


def test_a_constraint_is_told_from_when_nobody_enforces_it() -> None:
    """A group whose constraint was enforced always has no condition about it."""
    state, controller = cluster(native(topology="zone")), GangStatusController()
    state.topology.settings["muster-scheduler"] = TopologySettings()
    state.unplaced.own = frozenset({"muster-scheduler"})
    state.put_pod(
        make_pod("a/p0")
        .uid("p0")
        .spec(schedulingGroup={"podGroupName": "g"})
        .scheduler("muster-scheduler")
        .obj(),
        0.0,
    )
    assert controller.reconcile(state, 10.0) == []
    state.put_pod(
        make_pod("a/p1").uid("p1").spec(schedulingGroup={"podGroupName": "g"}).scheduler("other").obj(), 0.0
    )
    (lost,) = conditions(controller.reconcile(state, 20.0))
    assert (lost["type"], lost["status"], lost["reason"]) == ("TopologyNotEnforced", "True", "NoPlugin")
    state.put_gang(native([lost], topology="zone"))
    assert controller.reconcile(state, 30.0) == []
    state.remove_pod("p1")
    (found,) = conditions(controller.reconcile(state, 40.0))
    assert (found["type"], found["status"], found["reason"]) == (
        "TopologyNotEnforced",
        "False",
        "PlacedTogether",
    )


def test_a_constraint_of_a_group_of_another_scheduler_is_left_to_that_scheduler() -> None:
    state = cluster(native(topology="zone"))
    state.topology.settings["muster-scheduler"] = TopologySettings()
    state.unplaced.own = frozenset({"muster-scheduler"})
    pod = make_pod("a/p0").uid("p0").spec(schedulingGroup={"podGroupName": "g"}).scheduler("other").obj()
    state.put_pod(pod, 0.0)
    assert GangStatusController().reconcile(state, 10.0) == []
