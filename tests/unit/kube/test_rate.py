"""The token bucket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.rate import RateLimiter


@given(st.lists(st.floats(0, 2), max_size=60), st.floats(0.5, 20), st.integers(1, 10))
def test_a_limiter_never_lets_more_through_than_burst_plus_rate(
    gaps: list[float], qps: float, burst: int
) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    limiter = RateLimiter(qps, burst, monotonic=lambda: clock[0], sleep=sleep)
    taken = []
    for gap in gaps:
        clock[0] += gap
        limiter.wait()
        taken.append(clock[0])
    for first, began in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + (taken[last] - began) * qps + 1e-6


def test_take_does_not_wait() -> None:
    clock = [0.0]
    limiter = RateLimiter(1.0, 1, monotonic=lambda: clock[0])
    assert [limiter.take(), limiter.take()] == [True, False]
    clock[0] = 1.0
    assert limiter.take()


@pytest.mark.parametrize(("burst", "patient"), [(1, 1), (2, 1), (10, 5), (100, 50)])
def test_a_yielding_client_leaves_half_of_a_burst_and_still_makes_progress(burst: int, patient: int) -> None:
    clock = [0.0]
    limiter = RateLimiter(2.0, burst, monotonic=lambda: clock[0])
    assert sum(limiter.take(spare=limiter.half_burst) for _ in range(200)) == patient
    assert sum(limiter.take() for _ in range(200)) == burst - patient
    clock[0] = limiter.delay(spare=limiter.half_burst)
    assert clock[0] <= burst / 2.0
    assert limiter.take(spare=limiter.half_burst)


def test_a_limiter_waits_for_others_for_two_bursts_at_most() -> None:
    clock = [0.0]
    limiter = RateLimiter(10.0, 20, monotonic=lambda: clock[0])
    limiter.spend(15.0)
    assert sum(limiter.take() for _ in range(20)) == 5
    limiter.spend(10.0)
    assert limiter.delay() == pytest.approx(1.1)
    limiter.spend(1e9)
    assert limiter.delay() == pytest.approx(2.1)
    clock[0] = 3.0
    assert sum(limiter.take() for _ in range(20)) == 10


def test_a_limiter_that_lets_nothing_through_is_refused() -> None:
    with pytest.raises(ValueError, match="qps=0 must be positive"):
        RateLimiter(0, 1)
