"""What a group needs at least."""

from __future__ import annotations

import pytest

from scheduler_core.quota.group_need import least

PODS = [{"cpu": 3, "gpu": 1}, {"cpu": 1, "gpu": 1}, {"gpu": 4}]


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        pytest.param(1, {"cpu": 0, "gpu": 1}, id="the smallest one, resource by resource"),
        pytest.param(2, {"cpu": 1, "gpu": 2}, id="the two smallest"),
        pytest.param(3, {"cpu": 4, "gpu": 6}, id="all"),
        pytest.param(5, {"cpu": 4, "gpu": 8}, id="pods that are missing are like the smallest"),
    ],
)
def test_the_smallest_pods_count(need: int, expected: dict[str, int]) -> None:
    assert least(need, PODS) == expected


def test_without_pods_nothing_is_known() -> None:
    assert least(5, []) == {}
