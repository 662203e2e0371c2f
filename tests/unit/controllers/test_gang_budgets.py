"""Budgets that protect gangs: when there is one, what it says, whose pods it selects, what is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_core.controllers.gang_budgets import LONGEST_SECONDS, RETRY_SECONDS, GangBudgets
from scheduler_core.engine.events import put_object, remove_object
from scheduler_core.model.groups.gang import parse_x_gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.kinds import POD_DISRUPTION_BUDGETS, PODS
from scheduler_core.model.pdb import PodDisruptionBudget, parse_pdb
from scheduler_core.model.writes import Create, Delete, Patch, Write
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_budget, make_group, make_node, make_pod

LABEL = "muster.dev/pod-group-uid"
OURS = "muster-scheduler"


def member(name: str, phase: str = "Running", mark: str = "") -> PodBuilder:
    pod = make_pod(f"a/{name}").uid(name).group("g")
    if mark:
        pod.label(LABEL, mark)
    return pod.on("n", phase) if phase else pod


def cluster(*pods: PodBuilder, minimum: int = 2, uid: str = "u1") -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_gang(make_group("a/g").needs(minimum).uid(uid).obj())
    for pod in pods:
        state.put_pod(pod.obj(), 0.0)
    return state


def budget(minimum: Any = 2, uid: str = "u1", **selector: Any) -> PodDisruptionBudget:
    """Muster's own, as the API has it."""
    meta = {
        "name": f"podgroup-{uid}",
        "namespace": "a",
        "uid": f"budget-of-{uid}",
        "labels": {LABEL: uid},
        "ownerReferences": [{"kind": "PodGroup", "name": "g", "uid": uid}],
    }
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {LABEL: uid}, **selector}}
    return parse_pdb({"metadata": meta, "spec": spec})


def reconciled(state: ClusterState, *schedulers: str, now: float = 10.0) -> list[Write]:
    return GangBudgets(schedulers or (OURS,)).reconcile(state, now)


def of(writes: Sequence[Write], kind: type[Write]) -> list[Any]:
    return [write for write in writes if isinstance(write, kind)]


def test_a_gang_that_runs_gets_a_budget_of_its_group_and_its_pods_the_label() -> None:
    writes = reconciled(cluster(member("p0"), member("p1", mark="u1")))
    (created,), (labelled,) = of(writes, Create), of(writes, Patch)
    assert created.resource == POD_DISRUPTION_BUDGETS
    assert created.body == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "podgroup-u1",
            "namespace": "a",
            "labels": {LABEL: "u1"},
            "ownerReferences": [
                {
                    "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
                    "kind": "PodGroup",
                    "name": "g",
                    "uid": "u1",
                }
            ],
        },
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {LABEL: "u1"}}},
    }
    assert (labelled.resource, labelled.name, labelled.uid) == (PODS, "p0", "p0")
    assert labelled.body == {"metadata": {"labels": {LABEL: "u1"}}}


WANTED = [
    pytest.param([], None, id="no pods"),
    pytest.param([member("p0", ""), member("p1", "")], None, id="it waits"),
    pytest.param([member("p0"), member("p1")], 2, id="it runs"),
    pytest.param([member("p0", "Pending"), member("p1", "Pending")], 2, id="it is bound"),
    pytest.param([member("p0"), member("p1"), member("p2")], 2, id="more than it needs"),
    pytest.param([member("p0"), member("p1", "Succeeded")], 1, id="one is done"),
    pytest.param([member("p0", "Succeeded"), member("p1", "Succeeded")], None, id="it is done"),
    pytest.param(
        [member("p0", "Succeeded"), member("p1", "Succeeded"), member("p2")], None, id="one is late"
    ),
    pytest.param([member("p0")], 2, id="torn: what is left stays"),
    pytest.param([member("p0").deleting(5.0), member("p1", "Failed")], None, id="nobody stays"),
    pytest.param([member("p0").scheduler("other"), member("p1").scheduler("other")], None, id="of others"),
    pytest.param([member("p0").scheduler("other"), member("p1")], 2, id="one is of others"),
]


@pytest.mark.parametrize(("pods", "minimum"), WANTED)
def test_how_many_must_stay(pods: list[PodBuilder], minimum: int | None) -> None:
    created = of(reconciled(cluster(*pods)), Create)
    assert [write.body["spec"]["minAvailable"] for write in created] == ([] if minimum is None else [minimum])


@pytest.mark.parametrize(("pods", "minimum"), WANTED)
def test_a_budget_that_is_there_is_made_right_or_goes(pods: list[PodBuilder], minimum: int | None) -> None:
    state = cluster(*pods)
    put_object(state, budget(2), 0.0)
    writes = [write for write in reconciled(state) if write.resource != PODS]  # type: ignore[union-attr]
    match minimum:
        case None:
            assert of(writes, Delete) == [
                Delete(POD_DISRUPTION_BUDGETS, "a", "podgroup-u1", uid="budget-of-u1")
            ]
        case 2:
            assert writes == []
        case _:
            (patch,) = writes
            assert isinstance(patch, Patch)
            assert (patch.name, patch.uid) == ("podgroup-u1", "budget-of-u1")
            assert isinstance(patch.body, dict)
            assert patch.body["spec"]["minAvailable"] == minimum


def test_a_budget_that_another_client_changed_is_restored() -> None:
    state = cluster(member("p0", mark="u1"), member("p1", mark="u1"))
    put_object(state, budget(2, matchExpressions=[{"key": "x", "operator": "Exists"}]), 0.0)
    (patch,) = reconciled(state)
    assert isinstance(patch, Patch)
    assert patch.body == {
        "spec": {
            "minAvailable": 2,
            "maxUnavailable": None,
            "selector": {"matchLabels": {LABEL: "u1"}, "matchExpressions": None},
        }
    }


def test_members_that_are_only_assumed_have_no_budget_yet() -> None:
    state = cluster(member("p0", ""), member("p1", ""))
    for name in ("p0", "p1"):
        state.assume(state.pods[name], 0, 1.0)
    assert reconciled(state) == []


def test_where_it_is_off_only_old_ones_go() -> None:
    state = cluster(member("p0"), member("p1"))
    put_object(state, budget(), 0.0)
    assert reconciled(state, "another") == [
        Delete(POD_DISRUPTION_BUDGETS, "a", "podgroup-u1", uid="budget-of-u1")
    ]


def test_the_budget_of_a_group_that_was_made_again_goes_and_its_pods_get_the_new_mark() -> None:
    state = cluster(member("p0", mark="u1"), member("p1", mark="u1"))
    put_object(state, budget(), 0.0)
    controller = GangBudgets([OURS])
    assert controller.reconcile(state, 1.0) == []
    state.put_gang(make_group("a/g").needs(1).uid("u2").obj())
    writes = controller.reconcile(state, 2.0)
    assert [write.name for write in of(writes, Delete)] == ["podgroup-u1"]
    assert [write.body["metadata"]["name"] for write in of(writes, Create)] == ["podgroup-u2"]
    assert {write.name: write.body["metadata"]["labels"][LABEL] for write in of(writes, Patch)} == {
        "p0": "u2",
        "p1": "u2",
    }


def test_the_budget_of_a_group_that_is_gone_goes() -> None:
    state = cluster(member("p0", mark="u1"), member("p1", mark="u1"))
    put_object(state, budget(), 0.0)
    state.remove_gang(make_group("a/g").needs(2).uid("u1").obj())
    writes = reconciled(state)
    assert [write.name for write in of(writes, Delete)] == ["podgroup-u1"]
    assert [write.body for write in of(writes, Patch)] == [{"metadata": {"labels": {LABEL: None}}}] * 2


OTHERS = [
    pytest.param(make_budget("a/podgroup-u1").obj(), [], id="of the same name"),
    pytest.param(make_budget("a/podgroup-u1").label(LABEL, "u1").obj(), [], id="without an owner"),
    pytest.param(
        parse_pdb(
            {
                "metadata": {
                    "name": "mine",
                    "namespace": "a",
                    "labels": {LABEL: "u1"},
                    "ownerReferences": [{"kind": "PodGroup", "name": "g", "uid": "u1"}],
                }
            }
        ),
        [Create],
        id="of another name",
    ),
]


@pytest.mark.parametrize(("other", "kinds"), OTHERS)
def test_budgets_of_others_are_never_touched(other: PodDisruptionBudget, kinds: list[type[Write]]) -> None:
    state = cluster()
    put_object(state, other, 0.0)
    assert other.gang == ""
    assert reconciled(state) == []
    for pod in (member("p0", mark="u1"), member("p1", mark="u1")):
        state.put_pod(pod.obj(), 0.0)
    assert [type(write) for write in reconciled(state)] == kinds


def test_pods_with_a_budget_of_another_owner_get_no_second_one() -> None:
    state = cluster(member("p0").labels(app="x"), member("p1"))
    controller = GangBudgets([OURS])
    assert len(of(controller.reconcile(state, 1.0), Create)) == 1
    put_object(state, budget(), 2.0)
    theirs = make_budget("a/theirs").selects(app="x").obj()
    put_object(state, theirs, 3.0)
    assert [write.name for write in controller.reconcile(state, 3.0)] == ["podgroup-u1"]  # type: ignore[union-attr]
    remove_object(state, budget(), 4.0)
    assert controller.reconcile(state, 4.0) == []
    remove_object(state, theirs, 5.0)
    assert len(of(controller.reconcile(state, 5.0), Create)) == 1


def test_the_label_is_taken_from_pods_that_are_no_members() -> None:
    state = cluster(member("p0", mark="u1"), member("p1", mark="u1"))
    controller = GangBudgets([OURS])
    forged = make_pod("a/forged").uid("forged").label(LABEL, "u1").on("n")
    state.put_pod(forged.obj(), 0.0)
    assert [type(write) for write in controller.reconcile(state, 1.0)] == [Create]
    put_object(state, budget(), 2.0)
    (patch,) = controller.reconcile(state, 2.0)
    assert isinstance(patch, Patch)
    assert (patch.name, patch.body) == ("forged", {"metadata": {"labels": {LABEL: None}}})
    state.put_pod(make_pod("a/forged").uid("forged").on("n").obj(), 3.0)
    assert controller.reconcile(state, 3.0) == []
    # One that leaves its group keeps the label until it is taken.
    state.put_pod(make_pod("a/p1").uid("p1").label(LABEL, "u1").on("n").obj(), 4.0)
    (patch,) = controller.reconcile(state, 4.0)
    assert isinstance(patch, Patch)
    assert patch.name == "p1"


def test_writes_without_effect_are_repeated_ever_later() -> None:
    state, controller = cluster(member("p0"), member("p1")), GangBudgets([OURS])
    assert len(controller.reconcile(state, 0.0)) == 3
    state.put_pod(member("p0", mark="u1").obj(), 0.1)
    assert controller.reconcile(state, 0.2) == []
    assert controller.next_time(state) == RETRY_SECONDS
    times, now = [], 0.0
    for _ in range(8):
        now = controller.next_time(state) or 0.0
        assert len(controller.reconcile(state, now)) == 2, "the budget and the other label"
        times.append((controller.next_time(state) or 0.0) - now)
    assert times == [20, 40, 80, 160, *[LONGEST_SECONDS] * 4]
    state.put_pod(member("p1", mark="u1").obj(), now)
    put_object(state, budget(), now)
    assert controller.reconcile(state, now) == []
    assert controller.next_time(state) is None


def test_a_change_goes_out_at_once_beside_writes_whose_effect_is_awaited() -> None:
    state, controller = cluster(member("p0"), member("p1")), GangBudgets([OURS])
    assert len(controller.reconcile(state, 0.0)) == 3
    state.put_pod(member("p1", "Succeeded").obj(), 0.1)
    (created,) = controller.reconcile(state, 0.2)
    assert isinstance(created, Create)
    assert created.body["spec"]["minAvailable"] == 1


def test_gangs_of_the_other_dialects_are_owners_too() -> None:
    meta = {"namespace": "a", "name": "g", "uid": "u9"}
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_gang(parse_x_gang({"metadata": meta, "spec": {"minMember": 2}}))
    state.put_gang(parse_native_gang({"metadata": {**meta, "name": "loose", "uid": "u8"}, "spec": {}}))
    for name in ("p0", "p1"):
        pod = make_pod(f"a/{name}").uid(name).label("scheduling.x-k8s.io/pod-group", "g").on("n")
        state.put_pod(pod.obj(), 0.0)
    loose = make_pod("a/loose").uid("loose").spec(schedulingGroup={"podGroupName": "loose"}).on("n")
    state.put_pod(loose.obj(), 0.0)
    (created,) = of(reconciled(state), Create)
    (owner,) = created.body["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["uid"]) == ("scheduling.x-k8s.io/v1alpha1", "u9")
