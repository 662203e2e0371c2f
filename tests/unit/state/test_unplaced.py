"""Pods that count without a node: those that admission has charged, and those it has let in just now."""

from __future__ import annotations

import pytest

from scheduler_core.engine.intake import take_in, take_out
from scheduler_core.model.charging import charged_at_creation, counts_in_quota
from scheduler_core.model.names import CHARGED_ANNOTATION, CPU, DEFAULT_SCHEDULER
from scheduler_core.model.reservation_ledger import ELASTIC_NAME, Charge, Hold, ReservationLedger
from scheduler_core.state.belief import BELIEVED_SECONDS
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import Happened
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota

COUNTED = [
    ("it has a node", "n1", {}, "Running", True),
    ("it has none", "", {}, "Pending", False),
    ("it was charged at its creation", "", {CHARGED_ANNOTATION: "true"}, "Pending", True),
    ("any other value says nothing", "", {CHARGED_ANNOTATION: "yes"}, "Pending", False),
    ("it ended", "n1", {CHARGED_ANNOTATION: "true"}, "Succeeded", False),
    ("it ended without a node", "", {CHARGED_ANNOTATION: "true"}, "Failed", False),
    ("its phase is not known", "n1", {}, "Unknown", True),
]


@pytest.mark.parametrize(
    ("node", "annotations", "phase", "right"), [c[1:] for c in COUNTED], ids=[c[0] for c in COUNTED]
)
def test_which_pods_count(node: str, annotations: dict[str, str], phase: str, right: bool) -> None:
    assert counts_in_quota(node=node, charged=charged_at_creation(annotations), phase=phase) is right
    pod = make_pod("a/p").status(phase=phase)
    if node:
        pod.on(node, phase)
    for key, value in annotations.items():
        pod.annotation(key, value)
    assert pod.obj().counts is right


def foreign(name: str = "p", cpu: int = 3) -> PodBuilder:
    """A pod of another scheduler, charged at its creation."""
    pod = make_pod(f"a/{name}").uid(name).scheduler(DEFAULT_SCHEDULER).requests(cpu=cpu)
    return pod.annotation(CHARGED_ANNOTATION, "true")


def cluster(own: str = "ours") -> ClusterState:
    state = ClusterState()
    state.unplaced.own = frozenset({own})
    state.put_node(make_node("n1").allocatable(cpu=8).obj())
    state.put_quota(make_quota("a/q").min(cpu=4).max(cpu=4).obj())
    return state


def charges(*made: tuple[str, int], namespace: str = "a") -> ReservationLedger:
    found = tuple(Charge(uid, uid, "", {CPU: 1000 * cpu, "pods": 1}) for uid, cpu in made)
    return ReservationLedger(namespace, charges=found, name=ELASTIC_NAME)


def used(state: ClusterState) -> tuple[int, int]:
    """CPUs and pods of the namespace."""
    assert state.check() == []
    amounts = state.ledger.used("a")
    return amounts.get(CPU, 0) // 1000, amounts.get("pods", 0)


def test_it_counts_before_and_once_after_it_gets_a_node() -> None:
    state = cluster()
    (event,) = state.put_pod(foreign().obj())
    assert (event.what, used(state), state.quota_dirty) == (Happened.QUOTA, (3, 1), {"a"})
    assert state.put_pod(foreign().obj()) == [], "no news, no event"
    state.put_pod(foreign().on("n1").obj())
    assert used(state) == (3, 1)
    assert not state.ledger.is_unplaced("a", "p")
    state.remove_pod("p")
    assert used(state) == (0, 0)


@pytest.mark.parametrize("ends", ["deleted", "finished", "no longer marked"])
def test_it_is_given_back(ends: str) -> None:
    state = cluster()
    state.put_pod(foreign().obj())
    if ends == "deleted":
        (event,) = state.remove_pod("p")
    elif ends == "finished":
        (event,) = state.put_pod(foreign().status(phase="Failed").obj())
    else:
        (event,) = state.put_pod(foreign().annotation(CHARGED_ANNOTATION, "false").obj())
    assert Happened.QUOTA in event.what
    assert used(state) == (0, 0)


def test_a_forged_mark_on_a_pod_of_our_own_counts_from_its_placement_on() -> None:
    state = cluster(own=DEFAULT_SCHEDULER)
    pod = foreign(cpu=4).obj()
    assert (state.put_pod(pod), used(state)) == ([], (0, 0))
    state.assume(pod, 0, 1.0)
    assert used(state) == (4, 1)
    state.forget("p")
    assert used(state) == (0, 0)


def test_what_was_admitted_counts_until_its_pod_is_seen() -> None:
    state = cluster()
    (event,) = take_in(state, charges(("p", 3)), 0.0)
    assert (event.what, event.namespace, used(state)) == (Happened.QUOTA, "a", (3, 1))
    assert take_in(state, charges(("p", 3)), 0.0) == []
    state.put_pod(foreign().obj())
    assert used(state) == (3, 1), "the pod counts itself, not twice"
    state.remove_pod("p")
    assert used(state) == (0, 0), "it was there: its charge says nothing any more"


def test_what_never_came_goes_with_its_charge() -> None:
    state = cluster()
    take_in(state, charges(("p", 3), ("r", 1)), 0.0)
    assert used(state) == (4, 2)
    take_in(state, charges(("r", 1)), 0.0)
    assert used(state) == (1, 1)
    take_out(state, charges(("r", 1)), 0.0)
    assert used(state) == (0, 0)


def test_a_pod_that_does_not_count_needs_no_charge() -> None:
    """Warned of only, or of our own: what is seen is believed."""
    state = cluster()
    take_in(state, charges(("p", 3)), 0.0)
    state.put_pod(foreign().annotation(CHARGED_ANNOTATION, "").obj())
    assert used(state) == (0, 0)


def test_a_resize_counts_from_its_admission_on() -> None:
    state = cluster()
    state.put_pod(foreign(cpu=2).on("n1").obj())
    state.put_pod(foreign(cpu=2).on("n1").deleting(5.0).obj())
    take_in(state, charges(("p", 4)), 0.0)
    assert used(state) == (4, 1)
    assert state.ledger.leaving("a")[CPU] == 4000, "who leaves leaves with all of it"
    state.put_pod(foreign(cpu=4).on("n1").obj())
    take_in(state, charges(), 0.0)
    assert used(state) == (4, 1)


def test_a_charge_of_another_namespace_says_nothing_of_a_pod() -> None:
    state = cluster()
    state.put_pod(foreign(cpu=2).on("n1").obj())
    take_in(state, charges(("p", 4), namespace="b"), 0.0)
    assert used(state) == (2, 1)


@pytest.mark.parametrize("node", ["n1", ""])
@pytest.mark.parametrize("scheduler", ["ours", DEFAULT_SCHEDULER])
def test_a_charge_that_names_a_pod_of_another_namespace_before_it_is_seen(scheduler: str, node: str) -> None:
    """Anybody may claim any uid, and a new process learns of ledgers before it learns of pods."""
    state = cluster()
    take_in(state, charges(("p", 3)), 0.0)
    pod = make_pod("b/p").uid("p").scheduler(scheduler).requests(cpu=2)
    state.put_pod(pod.annotation(CHARGED_ANNOTATION, "true").obj())
    if node:
        state.put_pod(pod.on(node).obj())
    else:
        state.assume(pod.obj(), 0, 1.0)
    assert (used(state), state.ledger.used("b")[CPU]) == ((3, 1), 2000)
    assert state.unplaced.lapse(BELIEVED_SECONDS) == ["a"]
    assert (used(state), state.ledger.used("b")[CPU]) == ((0, 0), 2000)
    state.remove_pod("p")
    assert (used(state), state.ledger.used("b")[CPU]) == ((0, 0), 0)


def test_reservations_and_charges_of_a_namespace_do_not_disturb_each_other() -> None:
    state = cluster()
    holds = ReservationLedger("a", holds=(Hold("g", "u", 1, {CPU: 1000}),))
    take_in(state, holds, 0.0)
    take_in(state, charges(("p", 3)), 0.0)
    assert state.gangs.ledgers["a"] is holds
    take_out(state, holds, 0.0)
    assert (state.gangs.ledgers, used(state)) == ({}, (3, 1))
    take_in(state, holds, 0.0)
    take_out(state, charges(("p", 3)), 0.0)
    assert (list(state.gangs.ledgers), used(state)) == (["a"], (0, 0))


def test_the_checker_finds_a_pod_that_should_count_and_one_that_should_not() -> None:
    state = cluster()
    state.put_pod(foreign().obj())
    state.ledger.refund("a", "p")
    assert "a/p is charged None without a node" in state.check()[0]
    state = cluster()
    state.ledger.charge("a", "ghost", {}, placed=False)
    assert state.check() == ["a/ghost is charged without a node, and nobody knows it"]
