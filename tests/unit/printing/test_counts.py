"""Counts and numbers in sentences."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler_core.printing.counts import counted, names_text, number_text


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_one_is_no_plural(number: int, text: str) -> None:
    assert counted(number, "pod") == text


NAMES: list[tuple[str, int, str]] = [
    ("", 5, ""),
    ("a", 5, "a"),
    ("abcde", 5, "a, b, c, d, e"),
    ("abcdef", 5, "a, b, c, d, e and 1 more"),
    ("abcdefgh", 5, "a, b, c, d, e and 3 more"),
    ("abc", 1, "a and 2 more"),
    ("abc", 3, "a, b, c"),
]


@pytest.mark.parametrize(("names", "most", "text"), NAMES)
def test_of_many_names_the_first_ones_are_told(names: str, most: int, text: str) -> None:
    assert names_text(iter(names), most) == text


def test_five_names_are_told_unless_said_otherwise() -> None:
    assert names_text("abcdefg") == "a, b, c, d, e and 2 more"


NUMBERS: list[tuple[Fraction, str]] = [
    (Fraction(0), "0"),
    (Fraction(2), "2"),
    (Fraction(100), "100"),
    (Fraction(1, 2), "0.5"),
    (Fraction(7, 12), "0.583"),
    (Fraction(2, 3), "0.667"),
    (Fraction(1, 50), "0.02"),
    (Fraction(1, 1000), "0.001"),
    (Fraction(6, 10000), "0.001"),
    (Fraction(4, 10000), "<0.001"),
    (Fraction(1, 10**9), "<0.001"),
    (Fraction(99996, 10000), "10"),
    (Fraction(21, 20), "1.05"),
]


@pytest.mark.parametrize(("number", "text"), NUMBERS)
def test_numbers_have_three_decimals_at_most(number: Fraction, text: str) -> None:
    assert number_text(number) == text
