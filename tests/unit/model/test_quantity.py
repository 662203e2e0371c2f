"""Quantities against Kubernetes' grammar, and against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import INT64_MAX, format_resource, parse_quantity, parse_resource

VALUES = [
    pytest.param("0", 0, 0, id="zero is zero"),
    pytest.param("500m", 3, 500, id="milli cpu is exact"),
    pytest.param("1.5", 3, 1500, id="a fraction of a cpu"),
    pytest.param(".5", 3, 500, id="no digit before the point"),
    pytest.param("5.", 0, 5, id="no digit after the point"),
    pytest.param("+3", 0, 3, id="a plus sign"),
    pytest.param("-3", 0, -3, id="a minus sign"),
    pytest.param("20Gi", 0, 20 * 2**30, id="binary suffix"),
    pytest.param("1.5Gi", 0, 3 * 2**29, id="binary suffix with a fraction"),
    pytest.param("2k", 0, 2000, id="decimal suffix"),
    pytest.param("1E", 0, 10**18, id="E is exa, not an exponent"),
    pytest.param("1E3", 0, 1000, id="E with digits is an exponent"),
    pytest.param("12e-1", 3, 1200, id="a negative exponent"),
    pytest.param("1e9999999999", 0, INT64_MAX, id="a huge exponent saturates at once"),
    pytest.param("-1e9999999999", 0, -INT64_MAX, id="and downwards"),
    pytest.param("0e9999999999", 0, 0, id="zero stays zero under any exponent"),
    pytest.param("9223372036854775808", 0, INT64_MAX, id="beyond int64 saturates"),
    pytest.param("8Ei", 0, INT64_MAX, id="binary beyond int64 saturates"),
]


@pytest.mark.parametrize(("text", "scale", "value"), VALUES)
def test_value(text: str, scale: int, value: int) -> None:
    assert parse_quantity(text, scale=scale) == value


@pytest.mark.parametrize(
    ("text", "scale", "up", "down"),
    [
        pytest.param("1n", 3, 1, 0, id="a nano of a cpu asks for a milli and gives none"),
        pytest.param("100u", 3, 1, 0, id="micro"),
        pytest.param("1.0001", 0, 2, 1, id="part of a byte"),
        pytest.param("-1.5", 0, -1, -2, id="up is towards plus infinity"),
        pytest.param("1e-9999999999", 0, 1, 0, id="the smallest is not nothing when asked for"),
    ],
)
def test_rounding(text: str, scale: int, up: int, down: int) -> None:
    assert parse_quantity(text, scale=scale, rounding="up") == up
    assert parse_quantity(text, scale=scale, rounding="down") == down


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1Kib", "1K", "NaN", "Infinity", "abc", "1e", "1.2.3", "--1", "0x10", "1_000", "٣", "m"],
)
def test_refused_text(text: str) -> None:
    with pytest.raises(ModelError, match="is not a quantity"):
        parse_quantity(text)


def test_text_is_bounded_before_any_arithmetic() -> None:
    with pytest.raises(ModelError, match="quantity of 65 characters is too long"):
        parse_quantity("1" * 65)


@pytest.mark.parametrize("value", [None, True, [], {}, float("nan"), float("inf")])
def test_refused_types(value: object) -> None:
    with pytest.raises(ModelError, match="is not a quantity"):
        parse_quantity(value)


def test_bare_numbers_are_read_as_written() -> None:
    assert parse_quantity(2, scale=3) == 2000
    assert parse_quantity(0.1, scale=3) == 100
    assert parse_quantity(10**30) == INT64_MAX


@given(
    whole=st.integers(0, 10**9),
    frac=st.text("0123456789", max_size=6),
    suffix=st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e2", "E-3"]),
    negative=st.booleans(),
    scale=st.sampled_from([0, 3]),
)
def test_equals_exact_fractions(whole: int, frac: str, suffix: str, negative: bool, scale: int) -> None:
    factor = {
        "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
        "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9), "Ki": Fraction(2**10),
        "Mi": Fraction(2**20), "Gi": Fraction(2**30), "e2": Fraction(100), "E-3": Fraction(1, 1000),
    }[suffix]  # fmt: skip
    number = Fraction(f"{whole}.{frac or 0}") * factor * 10**scale * (-1 if negative else 1)
    text = f"{'-' if negative else ''}{whole}.{frac}{suffix}"
    assert parse_quantity(text, scale=scale, rounding="up") == min(INT64_MAX, math.ceil(number))
    assert parse_quantity(text, scale=scale, rounding="down") == min(INT64_MAX, math.floor(number))


@given(
    resource=st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "requests.cpu", "hugepages-2Mi"]),
    value=st.integers(0, INT64_MAX),
)
def test_canonical_text_reads_back_as_the_same_value(resource: str, value: int) -> None:
    assert parse_resource(resource, format_resource(resource, value)) == value
