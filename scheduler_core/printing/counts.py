"""Counts and numbers in sentences: one pod, several pods, a share."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def names_text(names: Iterable[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def number_text(number: Fraction) -> str:
    """`0.583`, `2`: a number of at least 0 with at most three decimals; `<0.001` for less than that."""
    thousandths = round(number * 1000)
    if not thousandths and number:
        return "<0.001"
    whole, part = divmod(thousandths, 1000)
    return f"{whole}.{part:03}".rstrip("0").rstrip(".")
