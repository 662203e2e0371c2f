"""Backoff of a reflector."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.watch.reflector import Backoff


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_delays_double_and_stay_between_half_the_promise_and_the_cap(dice: list[float]) -> None:
    rolls = iter(dice)
    backoff = Backoff(0.8, 30.0, lambda: next(rolls))
    for number in range(len(dice)):
        base = min(0.8 * 2**number, 15.0)
        assert base <= backoff.next() <= 2 * base <= 30.0


def test_a_backoff_respects_what_the_server_asks_and_starts_again_after_a_reset() -> None:
    backoff = Backoff(1.0, 30.0, lambda: 0.5)
    assert backoff.next(at_least=10.0) == pytest.approx(10.5)
    assert backoff.next() == 3.0
    backoff.reset()
    assert backoff.next(at_least=0.1) == 1.5
