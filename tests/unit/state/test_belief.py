"""A charge that no pod confirms holds up its namespace for two seconds a minute at most."""

from __future__ import annotations

import pytest

from scheduler_core.engine.intake import let_lapse, take_in
from scheduler_core.model.names import CPU
from scheduler_core.model.reservation_ledger import ELASTIC_NAME, Charge, ReservationLedger
from scheduler_core.state.belief import BELIEVED_SECONDS, DOUBTED_SECONDS
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import Happened
from tests.unit.state.test_unplaced import charges, cluster, foreign, used


def test_it_counts_for_a_bounded_time_and_then_nothing_of_the_namespace_does() -> None:
    state = cluster()
    take_in(state, charges(("p", 3)), 10.0)
    assert state.unplaced.next_time() == 10.0 + BELIEVED_SECONDS
    take_in(state, charges(("p", 3), ("q", 1)), 11.0)
    assert let_lapse(state, 11.9) == []
    assert used(state) == (4, 2)
    (event,) = let_lapse(state, 12.0)
    assert (event.what, event.namespace, used(state)) == (Happened.QUOTA, "a", (0, 0))
    assert state.unplaced.next_time() is None
    assert take_in(state, charges(("r", 4)), 12.0 + DOUBTED_SECONDS - 0.1) == []
    assert used(state) == (0, 0)
    take_in(state, charges(("s", 4)), 12.0 + DOUBTED_SECONDS)
    assert used(state) == (4, 1)


def test_others_are_believed_all_the_same() -> None:
    state = cluster()
    take_in(state, charges(("p", 3), namespace="b"), 0.0)
    let_lapse(state, 3.0)
    take_in(state, charges(("p", 3)), 3.0)
    assert used(state) == (3, 1)


def test_whoever_forges_without_a_pause_holds_up_two_seconds_of_a_minute() -> None:
    state, held = cluster(), 0
    steps = range(10 * int(BELIEVED_SECONDS + DOUBTED_SECONDS) * 2)
    for number in steps:
        # Every half of a second other charges, some of which the ledger drops soon.
        let_lapse(state, number / 2)
        take_in(state, charges((f"x{number}", 2), (f"x{number - 1}", 2)), number / 2)
        held += used(state) != (0, 0)
    assert held / len(steps) <= 2.5 / (BELIEVED_SECONDS + DOUBTED_SECONDS)


def test_a_charge_that_changes_keeps_the_time_that_it_has() -> None:
    state = cluster()
    for number in range(4):
        take_in(state, charges(("p", number)), number / 2)
    assert state.unplaced.next_time() == BELIEVED_SECONDS
    take_in(state, charges(), 1.6)
    take_in(state, charges(("p", 4)), 1.7)
    let_lapse(state, BELIEVED_SECONDS)
    assert used(state) == (0, 0)


SEEN = ["in time", "after its charge went", "before the charge", "and deleted", "and finished"]


@pytest.mark.parametrize("when", SEEN)
def test_who_keeps_what_was_promised_is_believed_on(when: str) -> None:
    state = cluster()
    if when == "before the charge":
        state.put_pod(foreign(cpu=3).obj())
    take_in(state, charges(("p", 3)), 0.0)
    if when == "after its charge went":
        take_in(state, charges(), 0.5)
        assert used(state) == (0, 0)
    state.put_pod((foreign(cpu=3).status(phase="Failed") if when == "and finished" else foreign(cpu=3)).obj())
    if when == "and deleted":
        state.remove_pod("p")
    assert let_lapse(state, 5.0) == []
    before = used(state)[0]
    take_in(state, charges(("p", 3), ("q", 1)), 6.0)
    assert used(state)[0] == before + 1


def test_a_charge_that_goes_without_its_pod_is_a_promise_that_was_broken() -> None:
    state = cluster()
    take_in(state, charges(("p", 3)), 0.0)
    take_in(state, charges(), 0.5)
    assert let_lapse(state, BELIEVED_SECONDS) == [], "what is used is as it was"
    take_in(state, charges(("q", 3)), 3.0)
    assert used(state) == (0, 0)


def resized(state: ClusterState, cpu: int) -> None:
    state.put_pod(foreign(cpu=cpu).on("n1").obj())


def test_a_resize_that_is_never_shown_counts_for_as_long() -> None:
    state = cluster()
    resized(state, 2)
    take_in(state, charges(("p", 4)), 0.0)
    resized(state, 2)
    assert used(state) == (4, 1)
    (event,) = let_lapse(state, BELIEVED_SECONDS)
    assert (event.namespace, used(state)) == ("a", (2, 1))


def test_a_resize_that_was_shown_once_needs_no_charge_any_more() -> None:
    """Its node may call it infeasible then, and it asks for nothing."""
    state = cluster()
    resized(state, 2)
    take_in(state, charges(("p", 4)), 0.0)
    resized(state, 4)
    resized(state, 2)
    assert let_lapse(state, 5.0) == []
    assert used(state) == (2, 1)
    take_in(state, charges(("p", 4), ("q", 1)), 6.0)
    assert used(state) == (3, 2)


def test_what_is_only_announced_is_not_admitted_yet() -> None:
    state = cluster()
    waits = Charge("p", "p", "", {CPU: 3000}, announced=True)
    assert take_in(state, ReservationLedger("a", charges=(waits,), name=ELASTIC_NAME), 0.0) == []
    assert (used(state), state.unplaced.next_time()) == ((0, 0), None)


def test_after_a_restart_a_charge_counts_anew() -> None:
    for began in (0.0, 100.0):
        state = cluster()
        take_in(state, charges(("p", 3)), began)
        assert let_lapse(state, began + BELIEVED_SECONDS - 0.1) == []
        assert used(state) == (3, 1)


def test_a_clock_that_is_set_back_does_not_make_doubt_longer() -> None:
    state = cluster()
    take_in(state, charges(("p", 3)), 5000.0)
    let_lapse(state, 5003.0)
    take_in(state, charges(("q", 3)), 1000.0)
    assert used(state) == (3, 1)
