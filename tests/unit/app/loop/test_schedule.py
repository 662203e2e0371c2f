"""The schedule of the loop: the earliest moment of all parts, and the names of those that are stuck."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from scheduler_core.app.loop.schedule import FLOOR_SECONDS, RESTLESS_SECONDS, STUCK_TURNS, Schedule


class Parts:
    """A schedule of parts whose moments a test sets."""

    def __init__(self, *names: str, not_before: Callable[[], float] = lambda: 0.0) -> None:
        self.told: list[tuple[str, bool]] = []
        self.moments: dict[str, float | None] = dict.fromkeys(names)
        self.schedule = Schedule(self.tell)
        for name in names:
            self.schedule.add(name, lambda name=name: self.moments[name], not_before)  # type: ignore[misc]
        self.told.clear()

    def tell(self, part: str, *, stuck: bool) -> None:
        self.told.append((part, stuck))

    def turn(self, now: float, *names: str) -> float | None:
        self.schedule.had_turn(names or self.moments, now)
        return self.schedule.next_time()


def test_the_next_time_is_that_of_the_earliest_part() -> None:
    parts = Parts("a", "b")
    assert parts.schedule.next_time() is None
    parts.moments |= {"b": 7.0}
    assert parts.schedule.next_time() == 7.0
    parts.moments |= {"a": 3.0}
    assert parts.schedule.next_time() == 3.0


def test_a_part_gets_its_turn_no_sooner_than_it_may() -> None:
    parts = Parts("a", not_before=lambda: 5.0)
    parts.moments["a"] = 3.0
    assert parts.schedule.next_time() == 5.0


def test_a_part_whose_moment_stays_in_the_past_is_named_and_waits(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts("good", "bad")
    parts.moments["bad"] = 10.0
    with caplog.at_level(logging.INFO):
        for number in range(STUCK_TURNS):
            assert parts.turn(10.0 + number / 100) == 10.0
        assert parts.schedule.stuck == ()
        assert parts.turn(11.0) == 11.0 + FLOOR_SECONDS
    assert (parts.schedule.stuck, parts.told) == (("bad",), [("bad", True)])
    assert [(record.levelname, record.fields["part"]) for record in caplog.records] == [("WARNING", "bad")]  # type: ignore[attr-defined]
    # Nobody else waits for it.
    parts.moments["good"] = 11.2
    assert parts.schedule.next_time() == 11.2
    parts.moments["good"] = None
    # It has a turn with each of the others, and none of its own sooner than after the pause.
    assert parts.turn(11.2) == 11.2 + FLOOR_SECONDS
    assert len(parts.told) == 1


def test_a_part_whose_moment_moves_again_is_stuck_no_longer() -> None:
    parts = Parts("bad")
    parts.moments["bad"] = 10.0
    for _ in range(STUCK_TURNS + 1):
        parts.turn(11.0)
    parts.moments["bad"] = 10.5
    assert parts.turn(12.0) == 10.5
    assert (parts.schedule.stuck, parts.told) == ((), [("bad", True), ("bad", False)])


@pytest.mark.parametrize(
    "moments", [(None, 10.0), (10.0, 10.5), (10.0, 99.0)], ids=["it goes", "it moves", "it is to come"]
)
def test_a_part_that_makes_its_moment_pass_is_never_stuck(moments: tuple[float | None, float | None]) -> None:
    parts = Parts("good")
    for number in range(10 * STUCK_TURNS):
        parts.moments["good"] = moments[number % 2]
        parts.turn(11.0)
    assert parts.told == []


def test_a_part_whose_moment_moves_and_stays_in_the_past_is_named_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = Parts("bad")
    now = 1000.0
    while now < 1000.0 + RESTLESS_SECONDS:
        parts.moments["bad"] = now
        assert parts.turn(now) == now
        now += 0.5
    assert parts.schedule.stuck == ()
    parts.moments["bad"] = now
    assert parts.turn(now) == now + FLOOR_SECONDS
    assert (parts.schedule.stuck, parts.told) == (("bad",), [("bad", True)])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    # It stays so while it does not do what it is due for.
    for _ in range(10 * STUCK_TURNS):
        now += FLOOR_SECONDS
        parts.moments["bad"] = now
        assert parts.turn(now) == now + FLOOR_SECONDS
    parts.moments["bad"] = now + 5.0
    assert parts.turn(now + 1.0) == now + 5.0
    assert parts.told == [("bad", True), ("bad", False)]


def test_a_part_that_does_some_of_its_work_in_each_turn_is_never_stuck() -> None:
    parts = Parts("busy")
    for number in range(1000):
        parts.moments["busy"] = float(number)
        parts.schedule.worked("busy")
        assert parts.turn(float(number)) == number
    assert parts.told == []


def test_a_machine_that_slept_makes_nobody_stuck() -> None:
    parts = Parts("a")
    for now in (1000.0, 1000.0 + 10 * RESTLESS_SECONDS):
        parts.moments["a"] = now
        parts.turn(now)
    assert parts.told == []


def test_a_part_that_had_no_turn_is_not_judged() -> None:
    parts = Parts("a", "b")
    parts.moments["b"] = 10.0
    for _ in range(10 * STUCK_TURNS):
        assert parts.turn(11.0, "a") == 10.0
    # Nor is a moment of the past judged twice for one turn.
    parts.turn(11.0)
    for _ in range(10 * STUCK_TURNS):
        parts.schedule.next_time()
    assert parts.told == []


def test_a_clock_that_was_set_back_makes_nobody_stuck() -> None:
    parts = Parts("a")
    parts.moments["a"] = 3600.0
    for _ in range(10 * STUCK_TURNS):
        parts.turn(10.0)
    assert parts.told == []


def test_two_parts_of_a_name_are_refused() -> None:
    parts = Parts("a")
    with pytest.raises(ValueError, match="two parts named 'a'"):
        parts.schedule.add("a", lambda: None)
