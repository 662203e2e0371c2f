"""Entitlements: the worked examples, and that nothing is lost, doubled or decided by a name."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.quota.entitlements import Claimant, entitlements


def claim(key: str, demand: int, low: int, weight: float | str = 1) -> Claimant:
    return Claimant(key, demand, low, Fraction(weight))


IDLE = claim("c", 0, 8)


@pytest.mark.parametrize(
    ("capacity", "claimants", "expected"),
    [
        pytest.param(12, [claim("a", 10, 2), claim("b", 5, 2), IDLE], {"a": 7, "b": 5, "c": 0}, id="equal"),
        pytest.param(
            12, [claim("a", 12, 2, 3), claim("b", 12, 2), IDLE], {"a": 8, "b": 4, "c": 0}, id="weights"
        ),
        pytest.param(12, [claim("a", 5, 2), claim("b", 12, 2), IDLE], {"a": 5, "b": 7, "c": 0}, id="max"),
        pytest.param(
            8,
            [claim(key, 8, 0) for key in "abc"] + [claim("d", 0, 8)],
            {"a": 3, "b": 3, "c": 2, "d": 0},
            id="integers",
        ),
        pytest.param(
            12, [claim("a", 12, 2, 0), claim("b", 4, 2), IDLE], {"a": 8, "b": 4, "c": 0}, id="weight 0"
        ),
        pytest.param(
            12,
            [claim("a", 12, 2, 0), claim("b", 6, 2), IDLE],
            {"a": 6, "b": 6, "c": 0},
            id="weight 0 gives what b asks for",
        ),
        pytest.param(
            12,
            [claim("a", 12, 0, 0), claim("b", 12, 2, 0), IDLE],
            {"a": 5, "b": 7, "c": 0},
            id="two of weight 0 share alike",
        ),
        pytest.param(
            9, [claim("a", 9, 4, "0.5"), claim("b", 9, 4, "0.001")], {"a": 5, "b": 4}, id="small weights"
        ),
        pytest.param(4, [claim("a", 4, 4), claim("b", 4, 4)], {"a": 4, "b": 4}, id="min beyond capacity"),
    ],
)
def test_entitlements(capacity: int, claimants: list[Claimant], expected: dict[str, int]) -> None:
    assert entitlements(capacity, claimants) == expected
    assert entitlements(capacity, reversed(claimants)) == expected


CLAIMS = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 12), st.sampled_from(["0", "0.001", "0.5", "1", "3", "1000"])
    ),
    min_size=1,
    max_size=7,
)


@given(claims=CLAIMS, idle=st.integers(0, 30))
def test_they_sum_to_all_demand_or_all_capacity(claims: list[tuple[int, int, str]], idle: int) -> None:
    claimants = [claim(f"n{i}", *found) for i, found in enumerate(claims)]
    capacity = sum(one.min for one in claimants) + idle
    found = entitlements(capacity, claimants)
    assert sum(found.values()) == min(capacity, sum(one.demand for one in claimants))
    for one in claimants:
        assert min(one.demand, one.min) <= found[one.key] <= one.demand


@given(claims=CLAIMS, idle=st.integers(0, 30))
def test_nobody_with_weight_envies_another_by_more_than_a_unit(
    claims: list[tuple[int, int, str]], idle: int
) -> None:
    claimants = [claim(f"n{i}", *found) for i, found in enumerate(claims)]
    found = entitlements(sum(one.min for one in claimants) + idle, claimants)
    hungry = [one for one in claimants if found[one.key] < one.demand and one.weight]
    for one in hungry:
        lent = found[one.key] - min(one.demand, one.min)
        for other in claimants:
            more = found[other.key] - min(other.demand, other.min)
            if other.weight:
                assert (more - 1) / other.weight <= (lent + 1) / one.weight
            else:
                assert more == 0
