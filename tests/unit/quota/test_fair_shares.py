"""Weighted shares: exact, of what is borrowed alone, and in the right order."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.quota.fair_shares import ShareScale, WeightedShare, borrows, scale_of, share_of
from scheduler_core.quota.ledger import QuotaLedger
from tests.support.builders import make_quota

GPU = "nvidia.com/gpu"


def ledger_of(*quotas: tuple[str, dict[str, int], dict[str, int]]) -> QuotaLedger:
    """A ledger of (namespace, min, used): GPUs whole, CPUs in thousandths, as pods request them."""
    ledger = QuotaLedger()
    for name, low, used in quotas:
        ledger.put_quota(make_quota(f"{name}/q").min(**low).obj())
        ledger.charge(name, "u", used)
    return ledger


def share(ledger: QuotaLedger, namespace: str, more: dict[str, int] | None = None) -> Fraction:
    quota = ledger.quota_of(namespace)
    assert quota is not None
    return share_of(ledger, quota, more)


def test_the_share_is_that_of_the_dominant_resource() -> None:
    ledger = ledger_of(
        ("a", {"gpu": 2}, {GPU: 5, "cpu": 2000}), ("b", {"gpu": 8, "cpu": 10}, {GPU: 1, "cpu": 12000})
    )
    assert share(ledger, "a") == Fraction(3, 10)
    assert share(ledger, "a", {"cpu": 3000}) == Fraction(5, 10)
    assert share(ledger, "b") == Fraction(2, 10)


def test_pods_on_their_way_out_are_not_borrowed_any_more() -> None:
    ledger = ledger_of(("a", {"gpu": 2}, {GPU: 5}), ("b", {"gpu": 8}, {}))
    ledger.mark_leaving("a", "u")
    assert share(ledger, "a") == 0


def test_resources_without_a_sum_of_min_are_not_borrowed() -> None:
    ledger = ledger_of(("a", {"gpu": 2}, {"memory": 10**9, "cpu": 10**6}), ("b", {"gpu": 8}, {}))
    quota = ledger.quota_of("a")
    assert quota is not None
    assert borrows(ledger, quota) == {}


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        pytest.param((3, "1"), (4, "1"), id="less"),
        pytest.param((5, "3"), (2, "1"), id="divided by the weight"),
        pytest.param((10**15, "1"), (0, "0"), id="weight 0 follows all others"),
        pytest.param((1, "0"), (2, "0"), id="two of weight 0 by the share"),
        pytest.param((1, "0.002"), (1, "0.001"), id="small weights"),
    ],
)
def test_order(lower: tuple[int, str], higher: tuple[int, str]) -> None:
    weights = [Fraction(lower[1]), Fraction(higher[1])]
    scale = ShareScale({GPU: 7, "cpu": 9000}, weights)
    first, second = (
        scale.share({GPU: amount}, weight)
        for (amount, _), weight in zip((lower, higher), weights, strict=True)
    )
    assert first < second


@given(
    amounts=st.dictionaries(st.sampled_from(["cpu", GPU, "memory"]), st.integers(0, 10**15)),
    totals=st.dictionaries(st.sampled_from(["cpu", GPU, "memory"]), st.integers(0, 10**15)),
    weight=st.fractions(0, 10**6, max_denominator=1000),
    other=st.fractions(0, 10**6, max_denominator=1000),
)
def test_shares_are_exact(
    amounts: dict[str, int], totals: dict[str, int], weight: Fraction, other: Fraction
) -> None:
    scale = ShareScale(totals, [weight, other])
    found = scale.share(amounts, weight)
    most = max(
        (Fraction(value, totals[name]) for name, value in amounts.items() if totals.get(name)), default=0
    )
    assert found.weightless == (weight == 0)
    assert scale.fraction(found) == most / (weight or 1)


def test_one_scale_serves_all_quotas() -> None:
    ledger = ledger_of(("a", {"gpu": 3}, {GPU: 5}), ("b", {"gpu": 4}, {GPU: 6}))
    scale = scale_of(ledger)
    assert scale.share({GPU: 2}, Fraction(1)) == WeightedShare(False, 2)
    assert scale.fraction(WeightedShare(False, 2)) == Fraction(2, 7)
