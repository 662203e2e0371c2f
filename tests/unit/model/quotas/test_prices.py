"""Prices in the annotation of a quota: exact numbers, or a refusal with the rule."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler_core.model.names import PRICE_ANNOTATION
from scheduler_core.model.quotas.sharing import PRICE_RULE, prices_of, sharing_of


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("nvidia.com/gpu=2.5,cpu=0.03", {"nvidia.com/gpu": Fraction("2.5"), "cpu": Fraction("0.03")}),
        ("cpu=0", {"cpu": Fraction(0)}),
        (" cpu=1 , memory=0.000001 ", {"cpu": Fraction(1), "memory": Fraction(1, 10**6)}),
    ],
)
def test_prices(text: str, prices: dict[str, Fraction]) -> None:
    assert prices_of(text) == prices
    assert sharing_of({PRICE_ANNOTATION: text})[0].prices == prices


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cpu",
        "cpu=",
        "=1",
        "cpu=-1",
        "cpu=1e3",
        "cpu=010",
        "cpu=00",
        "cpu=0x10",
        "cpu=1_000",
        "cpu=1234567890",
        "cpu=1,cpu=2",
        "cpu=1,",
        "cpu=0.0000001",
        "cpu=1€",
        "cpu=NaN",
    ],
)
def test_what_is_no_price_is_told_and_counts_as_absent(text: str) -> None:
    sharing, problems = sharing_of({PRICE_ANNOTATION: text})
    assert sharing.prices == {}
    (problem,) = problems
    assert str(problem) == f"metadata.annotations[{PRICE_ANNOTATION}]={text!r} {PRICE_RULE}"
