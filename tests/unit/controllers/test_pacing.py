from __future__ import annotations

from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.pacing import MOST_AT_ONCE, Portions, RecentWrites
from scheduler_core.controllers.quota_status import QuotaStatus
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_group, make_pod, make_quota
from tests.support.kept import entries

MANY = 3 * MOST_AT_ONCE


def test_the_first_of_those_that_are_due_are_taken_out() -> None:
    dirty = {f"{number:04}" for number in range(MANY)}
    portions = Portions(lambda key: 7.0 if int(key) % 2 == 1 else 9.0)
    odd = portions.take(dirty, 8.0)
    assert odd == [f"{number:04}" for number in range(1, 2 * MOST_AT_ONCE, 2)]
    assert len(dirty) == MANY - MOST_AT_ONCE


def test_a_namespace_with_more_than_a_portion_keeps_no_others_from_their_turn() -> None:
    """Its objects change again before each portion, and its name is the first."""
    portions, mine = Portions(), {f"a/{number:04}" for number in range(MANY)}
    dirty = mine | {"b/one", "b/two", "c/one"}
    found = portions.take(dirty, 8.0)
    assert {"b/one", "b/two", "c/one"} < set(found)
    assert [key for key in found if key < "b"] == [f"a/{number:04}" for number in range(MOST_AT_ONCE - 3)]


def test_many_namespaces_keep_no_others_from_their_turn() -> None:
    """Somebody has as many as are taken at once, each with an object that changes again all the time."""
    portions, mine = Portions(), {f"a{number:04}/one" for number in range(MOST_AT_ONCE)}
    dirty = mine | {"b/one"}
    taken = portions.take(dirty, 8.0)
    dirty |= mine
    taken += portions.take(dirty, 9.0)
    assert "b/one" in taken
    dirty |= mine
    assert set(taken) | set(portions.take(dirty, 10.0)) == mine | {"b/one"}


def test_the_next_time_of_what_is_left_moves_as_long_as_portions_are_taken() -> None:
    dirty = {f"{number:04}" for number in range(MANY)}
    portions = Portions()
    assert portions.next_time(dirty) == 0.0
    portions.take(dirty, 8.0)
    assert (portions.next_time(dirty), portions.next_time(set())) == (8.0, None)
    later = Portions(lambda key: 9.0)
    assert (later.take(dirty, 8.5), later.next_time(dirty)) == ([], 9.0)


def test_however_much_has_changed_a_controller_looks_at_a_portion_and_comes_back_at_once() -> None:
    state = ClusterState()
    for number in range(MANY):
        state.put_quota(make_quota(f"n{number:04}/q").uid(f"q{number}").max(cpu=6).obj())
        state.put_gang(make_group(f"n{number:04}/g").uid(f"g{number}").needs(2).obj())
        state.put_pod(make_pod(f"n{number:04}/p").uid(f"p{number}").group("g").obj())
    for controller in (QuotaStatus(), GangStatusController(), GangLifecycle()):
        patches, dues = [], []
        for _ in range(3):
            patches.append(len(controller.reconcile(state, 7.0)))
            dues.append(controller.next_time(state))
        assert dues == [7.0, 7.0, None]
        if not isinstance(controller, GangLifecycle):
            assert patches == [MOST_AT_ONCE] * 3


def test_pauses_that_are_over_are_forgotten() -> None:
    rests = RecentWrites(1.0)
    for number in range(100_000):
        now = 0.01 * number
        assert rests.end(str(number)) == 0.0
        rests.begin(str(number), now)
        assert rests.end(str(number)) == now + 1.0
        if number % 997 == 0:
            assert entries(rests) <= 400
