"""Breaths follow how much comes."""

from __future__ import annotations

import pytest

from scheduler_core.kube.batching import LONG_SECONDS, SHORT_SECONDS, BatchDelay

S, L = SHORT_SECONDS, LONG_SECONDS


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([0, 1, 3, 0], [S, S, S, S], id="little comes"),
        pytest.param([1, 4, 20, 11], [S, L, L, L], id="much comes"),
        pytest.param([5, 9, 3], [L, S, S], id="less comes again"),
    ],
)
def test_breaths_are_long_while_much_comes(found: list[int], expected: list[float]) -> None:
    delay = BatchDelay()
    assert [delay.after(count) for count in found] == expected
