"""The formulas over all nodes, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.load.spec import Percentile
from scheduler_core.load.usage import UNLIMITED, base_usage, contributions, grouped, points, room, score
from tests.support.load_builders import make_metric


def row(*values: int) -> np.ndarray:
    return np.array([values], dtype=np.int64)  # [1, N]


def flags(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.bool_)


# estimate, usage, estimated, prod, reported as prod: delta, prod usage, prod delta
CONTRIBUTIONS = [
    ("just placed, not reported, prod", (5, 0, 1, 1, 0), (5, 0, 5)),
    ("just placed, not reported, batch", (5, 0, 1, 0, 0), (5, 0, 0)),
    ("young, uses less than estimated", (5, 2, 1, 1, 1), (3, 2, 3)),
    ("young, uses more than estimated", (5, 9, 1, 1, 1), (0, 9, 0)),
    ("old and reported as prod", (5, 2, 0, 1, 1), (0, 2, 0)),
    ("prod, but reported as another band", (5, 9, 0, 1, 0), (0, 0, 5)),
    ("young prod, reported as another band", (5, 2, 1, 1, 0), (3, 0, 5)),
    ("batch, but reported as prod", (5, 9, 0, 0, 1), (0, 0, 0)),
]


@pytest.mark.parametrize(
    ("given", "expected"), [r[1:] for r in CONTRIBUTIONS], ids=[r[0] for r in CONTRIBUTIONS]
)
def test_contribution_of_a_pod(given: tuple[int, ...], expected: tuple[int, ...]) -> None:
    estimate, usage, estimated, prod, as_prod = given
    added = contributions(row(estimate), row(usage), flags(estimated), flags(prod), flags(as_prod))
    assert tuple(int(part[0, 0]) for part in added) == expected


# threshold, capacity, greatest use that passes: rounded and greater, unrounded and greater or equal
LIMITS = [
    (65, 100, 65, 64),
    (65, 1000, 654, 649),
    (65, 96_000, 62_879, 62_399),
    (100, 3, 3, 2),
    (1, 1000, 14, 9),
    (1000, 10, 100, 99),
]


@pytest.mark.parametrize(("threshold", "capacity", "rounded", "literal"), LIMITS)
def test_room_ends_where_the_percentage_is_too_much(
    threshold: int, capacity: int, rounded: int, literal: int
) -> None:
    for inclusive, expected in ((False, rounded), (True, literal)):
        found = int(room(row(threshold), row(capacity), row(0), inclusive=inclusive)[0, 0])
        assert found == expected
        for used, fits in ((expected, True), (expected + 1, False)):
            percent = used * 100 / capacity
            refused = percent >= threshold if inclusive else int(percent + 0.5) > threshold
            assert refused != fits


def test_no_threshold_or_capacity_means_no_limit() -> None:
    found = room(row(0, 65, 65), row(10, 0, 10), row(9, 9, 9), inclusive=False)
    assert found.tolist() == [[UNLIMITED, UNLIMITED, -3]]


@pytest.mark.parametrize(
    ("capacity", "used", "expected"),
    [(96_000, 45_600, 52), (10, 0, 100), (10, 10, 0), (10, 11, 0), (0, 0, 0), (0, 5, 0), (3, 1, 66)],
)
def test_points(capacity: int, used: int, expected: int) -> None:
    assert points(row(capacity), row(used)).tolist() == [[expected]]


@pytest.mark.parametrize(
    ("weights", "dominant", "expected"),
    [((1, 1), 0, 72), ((3, 1), 0, 62), ((1, 1), 1, 65), ((0, 0), 1, 52), ((1, 0), 100, 52), ((0, 1), 0, 93)],
)
def test_score_is_the_floor_of_the_weighted_mean(
    weights: tuple[int, int], dominant: int, expected: int
) -> None:
    values = np.array([[52], [93]], dtype=np.int64)  # [R, 1]
    assert score(values, np.array(weights, dtype=np.int64), dominant).tolist() == [expected]


def test_sums_of_groups_with_empty_ones() -> None:
    values = np.array([[1, 2, 3, 4], [10, 20, 30, 40]], dtype=np.int64)  # [R, P]
    counts = np.array([0, 2, 0, 1, 1, 0], dtype=np.int64)
    assert grouped(values, counts).tolist() == [[0, 3, 0, 3, 4, 0], [0, 30, 0, 30, 40, 0]]
    assert grouped(values[:, :0], np.zeros(2, dtype=np.int64)).tolist() == [[0, 0], [0, 0]]


PLAIN = {"cpu": 1000}
BASES = [
    ("no percentile", None, PLAIN),
    ("the duration", Percentile("p95", 300.0), {"cpu": 2000}),
    ("another spelling of it", Percentile("p95", 600.0), {"cpu": 3000}),
    ("a duration that is not there", Percentile("p95", 900.0), None),
    ("a duration without that type", Percentile("p50", 300.0), None),
    ("the longest with that type", Percentile("p95"), {"cpu": 3000}),
    ("the longest with a shorter type", Percentile("p99"), {"cpu": 2500}),
    ("no window with that type", Percentile("p50"), PLAIN),
    ("a type that nobody knows", Percentile("p42"), PLAIN),
]


@pytest.mark.parametrize(("percentile", "expected"), [r[1:] for r in BASES], ids=[r[0] for r in BASES])
def test_base_usage(percentile: Percentile | None, expected: dict[str, int] | None) -> None:
    metric = (
        make_metric("a")
        .usage(cpu="1")
        .percentile("5m0s", "p95", cpu="2")
        .percentile("5m", "p99", cpu="2500m")
    )
    metric.percentile("600s", "p95", cpu="3").percentile("soon", "p95", cpu="9").percentile("1h", "p95")
    assert base_usage(metric.obj(), percentile) == expected
