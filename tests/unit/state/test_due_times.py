from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.state.due_times import DueTimes, earliest
from tests.support.kept import entries

ACTS = st.lists(
    st.tuples(st.sampled_from(("put", "drop", "take", "clear")), st.integers(0, 5), st.integers(0, 9))
)


@given(ACTS)
def test_what_is_taken_is_what_was_due_and_is_gone(acts: list[tuple[str, int, int]]) -> None:
    times: DueTimes[int] = DueTimes()
    slow: dict[int, float] = {}
    for act, key, moment in acts:
        if act == "put":
            times.put(key, moment)
            slow[key] = moment
        elif act == "drop":
            times.drop(key)
            slow.pop(key, None)
        elif act == "clear":
            times.clear()
            slow.clear()
        else:
            due = times.take(moment)
            assert sorted(due) == sorted(key for key, at in slow.items() if at <= moment)
            assert [slow[key] for key in due] == sorted(slow[key] for key in due), "the earliest first"
            slow = {key: at for key, at in slow.items() if at > moment}
        assert times.next_time() == min(slow.values(), default=None)
        assert (set(times), len(times)) == (slow.keys(), len(slow))
        assert [times.get(key) for key in range(6)] == [slow.get(key) for key in range(6)]
        assert all(key in times for key in slow)


def test_of_equal_moments_the_one_that_was_put_first_is_taken_first() -> None:
    times: DueTimes[str] = DueTimes()
    for key in "cab":
        times.put(key, 1.0)
    times.put("c", 1.0)
    assert times.take(1.0) == ["c", "a", "b"]


def test_moments_that_move_all_the_time_keep_little() -> None:
    times: DueTimes[int] = DueTimes()
    for number in range(10_000):
        times.put(number % 10, number)
    assert entries(times) < 200


def test_the_earliest_of_moments() -> None:
    assert (earliest(), earliest(None), earliest(None, 2.0, 1.0)) == (None, None, 1.0)
