"""The loop's clock under steps of the wall clock."""

from __future__ import annotations

import pytest

from scheduler_core.app.loop.clock import SteadyClock


class Clocks:
    """A wall clock that can be stepped, beside one that cannot."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.wall = 1000.0
        self.steady = SteadyClock(lambda: self.passed, lambda: self.wall + self.passed)

    def advance(self, seconds: float) -> None:
        self.passed += seconds


def test_without_a_step_it_is_the_wall_clock() -> None:
    clocks = Clocks()
    clocks.advance(5.0)
    assert clocks.steady() == 1005.0


@pytest.mark.parametrize("drift", [0.4, -0.4])
def test_small_corrections_are_followed_at_once(drift: float) -> None:
    clocks = Clocks()
    clocks.wall += drift
    assert clocks.steady() == 1000.0 + drift


@pytest.mark.parametrize(("step", "after_10_s"), [(600.0, 15.0), (-600.0, 5.0)])
def test_a_step_changes_the_pace_and_not_the_time(step: float, after_10_s: float) -> None:
    clocks = Clocks()
    clocks.wall += step
    assert clocks.steady() == 1000.0
    clocks.advance(10.0)
    assert clocks.steady() == 1000.0 + after_10_s


@pytest.mark.parametrize("step", [600.0, -600.0])
def test_both_clocks_agree_again_in_the_end(step: float) -> None:
    clocks = Clocks()
    clocks.wall += step
    for _ in range(1201):
        clocks.advance(1.0)
        last = clocks.steady()
    assert last == clocks.wall + clocks.passed


def test_time_never_goes_back_however_the_wall_clock_is_stepped() -> None:
    clocks = Clocks()
    seen = []
    for step in (3600.0, -7200.0, 86400.0, -90000.0, 600.0, -600.0):
        clocks.wall += step
        for _ in range(5):
            clocks.advance(0.5)
            seen.append(clocks.steady())
    assert seen == sorted(seen)
