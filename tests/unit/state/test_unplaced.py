"""Pods that count without a node: those that admission has charged, and those it has let in just now."""

from __future__ import annotations

import pytest

from scheduler_core.engine.events import expire_charges, put_object, remove_object
from scheduler_core.model.names import CHARGED_ANNOTATION, CPU, DEFAULT_SCHEDULER
from scheduler_core.model.pods.charging import charged_at_creation, counts_in_quota
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, Charge, Hold, ReservationLedger
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.unplaced import IGNORED_SECONDS, PENDING_SECONDS
from tests.support.admissions import charges
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


def used(state: ClusterState) -> tuple[int, int]:
    """CPUs and pods of the namespace."""
    assert state.check() == []
    amounts = state.ledger.used("a")
    return amounts.get(CPU, 0) // 1000, amounts.get("pods", 0)


def test_it_counts_before_and_once_after_it_gets_a_node() -> None:
    state = cluster()
    (event,) = state.put_pod(foreign().obj())
    assert (event.what, used(state), state.quota_dirty) == (EventKind.QUOTA, (3, 1), {"a"})
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
    assert EventKind.QUOTA in event.what
    assert used(state) == (0, 0)


def test_a_forged_mark_on_a_pod_of_our_own_counts_from_its_placement_on() -> None:
    state = cluster(own=DEFAULT_SCHEDULER)
    pod = foreign(cpu=4).obj()
    assert (state.put_pod(pod), used(state)) == ([], (0, 0))
    state.assume(pod, 0, 1.0)
    assert used(state) == (4, 1)
    state.forget("p")
    assert used(state) == (0, 0)


def test_an_admitted_charge_counts_until_its_pod_is_visible() -> None:
    state = cluster()
    (event,) = put_object(state, charges(("p", 3)), 0.0)
    assert (event.what, event.namespace, used(state)) == (EventKind.QUOTA, "a", (3, 1))
    assert put_object(state, charges(("p", 3)), 0.0) == []
    state.put_pod(foreign().obj())
    assert used(state) == (3, 1), "the pod counts itself, not twice"
    state.remove_pod("p")
    assert used(state) == (0, 0), "it was there: its charge says nothing any more"


def test_a_pod_that_never_appeared_is_forgotten_with_its_charge() -> None:
    state = cluster()
    put_object(state, charges(("p", 3), ("r", 1)), 0.0)
    assert used(state) == (4, 2)
    put_object(state, charges(("r", 1)), 0.0)
    assert used(state) == (1, 1)
    remove_object(state, charges(("r", 1)), 0.0)
    assert used(state) == (0, 0)


def test_a_pod_that_does_not_count_needs_no_charge() -> None:
    """Warned of only, or of our own: what is seen is believed."""
    state = cluster()
    put_object(state, charges(("p", 3)), 0.0)
    state.put_pod(foreign().annotation(CHARGED_ANNOTATION, "").obj())
    assert used(state) == (0, 0)


def test_a_resize_counts_from_its_admission_on() -> None:
    state = cluster()
    state.put_pod(foreign(cpu=2).on("n1").obj())
    state.put_pod(foreign(cpu=2).on("n1").deleting(5.0).obj())
    put_object(state, charges(("p", 4)), 0.0)
    assert used(state) == (4, 1)
    assert state.ledger.leaving("a")[CPU] == 4000, "who leaves leaves with all of it"
    state.put_pod(foreign(cpu=4).on("n1").obj())
    put_object(state, charges(), 0.0)
    assert used(state) == (4, 1)


def test_a_charge_of_another_namespace_says_nothing_of_a_pod() -> None:
    state = cluster()
    state.put_pod(foreign(cpu=2).on("n1").obj())
    put_object(state, charges(("p", 4), namespace="b"), 0.0)
    assert used(state) == (2, 1)


@pytest.mark.parametrize("node", ["n1", ""])
@pytest.mark.parametrize("scheduler", ["ours", DEFAULT_SCHEDULER])
def test_a_charge_that_names_a_pod_of_another_namespace_before_it_is_seen(scheduler: str, node: str) -> None:
    """Anybody may claim any uid, and a new process learns of ledgers before it learns of pods."""
    state = cluster()
    put_object(state, charges(("p", 3)), 0.0)
    pod = make_pod("b/p").uid("p").scheduler(scheduler).requests(cpu=2)
    state.put_pod(pod.annotation(CHARGED_ANNOTATION, "true").obj())
    if node:
        state.put_pod(pod.on(node).obj())
    else:
        state.assume(pod.obj(), 0, 1.0)
    assert (used(state), state.ledger.used("b")[CPU]) == ((3, 1), 2000)
    assert state.unplaced.lapse(PENDING_SECONDS) == ["a"]
    assert (used(state), state.ledger.used("b")[CPU]) == ((0, 0), 2000)
    state.remove_pod("p")
    assert (used(state), state.ledger.used("b")[CPU]) == ((0, 0), 0)


def test_reservations_and_charges_of_a_namespace_do_not_disturb_each_other() -> None:
    state = cluster()
    holds = ReservationLedger("a", holds=(Hold("g", "u", 1, {CPU: 1000}),))
    put_object(state, holds, 0.0)
    put_object(state, charges(("p", 3)), 0.0)
    assert state.gangs.ledgers["a"] is holds
    remove_object(state, holds, 0.0)
    assert (state.gangs.ledgers, used(state)) == ({}, (3, 1))
    put_object(state, holds, 0.0)
    remove_object(state, charges(("p", 3)), 0.0)
    assert (list(state.gangs.ledgers), used(state)) == (["a"], (0, 0))


def test_the_checker_finds_a_pod_that_should_count_and_one_that_should_not() -> None:
    state = cluster()
    state.put_pod(foreign().obj())
    state.ledger.refund("a", "p")
    assert "a/p is charged None without a node" in state.check()[0]
    state = cluster()
    state.ledger.charge("a", "ghost", {}, placed=False)
    assert state.check() == ["a/ghost is charged without a node, and is unknown here"]


def test_it_counts_for_a_bounded_time_and_then_nothing_of_the_namespace_does() -> None:
    state = cluster()
    put_object(state, charges(("p", 3)), 10.0)
    assert state.unplaced.next_time() == 10.0 + PENDING_SECONDS
    put_object(state, charges(("p", 3), ("q", 1)), 11.0)
    assert expire_charges(state, 11.9) == []
    assert used(state) == (4, 2)
    (event,) = expire_charges(state, 12.0)
    assert (event.what, event.namespace, used(state)) == (EventKind.QUOTA, "a", (0, 0))
    assert state.unplaced.next_time() is None
    assert put_object(state, charges(("r", 4)), 12.0 + IGNORED_SECONDS - 0.1) == []
    assert used(state) == (0, 0)
    put_object(state, charges(("s", 4)), 12.0 + IGNORED_SECONDS)
    assert used(state) == (4, 1)


def test_others_are_believed_all_the_same() -> None:
    state = cluster()
    put_object(state, charges(("p", 3), namespace="b"), 0.0)
    expire_charges(state, 3.0)
    put_object(state, charges(("p", 3)), 3.0)
    assert used(state) == (3, 1)


def test_continuous_forgery_delays_two_seconds_of_a_minute() -> None:
    state, held = cluster(), 0
    steps = range(10 * int(PENDING_SECONDS + IGNORED_SECONDS) * 2)
    for number in steps:
        # Every half of a second other charges, some of which the ledger drops soon.
        expire_charges(state, number / 2)
        put_object(state, charges((f"x{number}", 2), (f"x{number - 1}", 2)), number / 2)
        held += used(state) != (0, 0)
    assert held / len(steps) <= 2.5 / (PENDING_SECONDS + IGNORED_SECONDS)


def test_a_charge_that_changes_keeps_the_time_that_it_has() -> None:
    state = cluster()
    for number in range(4):
        put_object(state, charges(("p", number)), number / 2)
    assert state.unplaced.next_time() == PENDING_SECONDS
    put_object(state, charges(), 1.6)
    put_object(state, charges(("p", 4)), 1.7)
    expire_charges(state, PENDING_SECONDS)
    assert used(state) == (0, 0)


SEEN = ["in time", "after its charge went", "before the charge", "and deleted", "and finished"]


@pytest.mark.parametrize("when", SEEN)
def test_who_keeps_what_was_promised_is_believed_on(when: str) -> None:
    state = cluster()
    if when == "before the charge":
        state.put_pod(foreign(cpu=3).obj())
    put_object(state, charges(("p", 3)), 0.0)
    if when == "after its charge went":
        put_object(state, charges(), 0.5)
        assert used(state) == (0, 0)
    state.put_pod((foreign(cpu=3).status(phase="Failed") if when == "and finished" else foreign(cpu=3)).obj())
    if when == "and deleted":
        state.remove_pod("p")
    assert expire_charges(state, 5.0) == []
    before = used(state)[0]
    put_object(state, charges(("p", 3), ("q", 1)), 6.0)
    assert used(state)[0] == before + 1


def test_a_charge_that_goes_without_its_pod_is_a_promise_that_was_broken() -> None:
    state = cluster()
    put_object(state, charges(("p", 3)), 0.0)
    put_object(state, charges(), 0.5)
    assert expire_charges(state, PENDING_SECONDS) == [], "what is used is as it was"
    put_object(state, charges(("q", 3)), 3.0)
    assert used(state) == (0, 0)


def resized(state: ClusterState, cpu: int) -> None:
    state.put_pod(foreign(cpu=cpu).on("n1").obj())


def test_a_resize_that_is_never_shown_counts_for_as_long() -> None:
    state = cluster()
    resized(state, 2)
    put_object(state, charges(("p", 4)), 0.0)
    resized(state, 2)
    assert used(state) == (4, 1)
    (event,) = expire_charges(state, PENDING_SECONDS)
    assert (event.namespace, used(state)) == ("a", (2, 1))


def test_a_resize_that_was_shown_once_needs_no_charge_any_more() -> None:
    """Its node may call it infeasible then, and it asks for nothing."""
    state = cluster()
    resized(state, 2)
    put_object(state, charges(("p", 4)), 0.0)
    resized(state, 4)
    resized(state, 2)
    assert expire_charges(state, 5.0) == []
    assert used(state) == (2, 1)
    put_object(state, charges(("p", 4), ("q", 1)), 6.0)
    assert used(state) == (3, 2)


def test_an_announced_charge_is_not_admitted_yet() -> None:
    state = cluster()
    waits = Charge("p", "p", "", {CPU: 3000}, announced=True)
    assert put_object(state, ReservationLedger("a", charges=(waits,), name=ELASTIC_NAME), 0.0) == []
    assert (used(state), state.unplaced.next_time()) == ((0, 0), None)


def test_after_a_restart_a_charge_counts_anew() -> None:
    for began in (0.0, 100.0):
        state = cluster()
        put_object(state, charges(("p", 3)), began)
        assert expire_charges(state, began + PENDING_SECONDS - 0.1) == []
        assert used(state) == (3, 1)


def test_a_clock_that_is_set_back_does_not_make_doubt_longer() -> None:
    state = cluster()
    put_object(state, charges(("p", 3)), 5000.0)
    expire_charges(state, 5003.0)
    put_object(state, charges(("q", 3)), 1000.0)
    assert used(state) == (3, 1)
