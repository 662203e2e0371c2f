"""Quantities as an API server stores them: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`, ` 2 ` becomes `2`.

Follows Kubernetes' `resource.Quantity` (k8s.io/apimachinery/pkg/api/resource/quantity.go): what is read has a
format (binary, decimal, exponent), and is written in the shortest form of this format. Texts that are written
so already stay as they are, with a `+` or leading zeros. Amounts of resources are rounded up to thousandths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import INT64_MAX, MAX_LENGTH

RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_TEXT: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<zeros>0*)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?)"
)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = ("", *_BINARY)
_NANO, _MILLI = -9, -3
# Texts with a larger exponent stay as they are.
_MAX_EXPONENT: Final = 200


@dataclass(frozen=True, slots=True)
class _Amount:
    """A quantity as it was read: its size without the sign, and the format in which it is written."""

    text: str
    size: Fraction
    is_negative: bool
    is_binary: bool
    has_exponent: bool
    # The power of ten of its last digit, and whether its text is taken for the shortest one.
    scale: int
    stays: bool
    # Whether Kubernetes reads it as a 64-bit integer and a power of ten, not as a decimal of any length.
    is_short: bool


def as_stored(value: str | float, *, of_resource: bool = False) -> str:
    """The text that an API server stores for a quantity.

    `of_resource`: the amount of a named resource (a value of a Go ResourceList), which is rounded up to
    thousandths. Raises ModelError for what is no quantity.
    """
    amount = _read(_text_of(value))
    if amount.stays and (not of_resource or amount.scale >= _MILLI):
        return amount.text
    size = _rounded_up(amount.size, _MILLI) if of_resource else amount.size
    sign = "-" if amount.is_negative and size else ""
    return sign + _written(size, amount.is_binary, amount.has_exponent)


def amount_of(value: str | float) -> Fraction:
    """The exact amount of a quantity, in billionths at least. Raises ModelError."""
    amount = _read(_text_of(value))
    return -amount.size if amount.is_negative else amount.size


def scale_of(value: str | float) -> int | None:
    """The power of ten of which Kubernetes keeps a 64-bit multiple; None where it keeps a longer decimal.

    Raises ModelError.
    """
    amount = _read(_text_of(value))
    return amount.scale if amount.is_short else None


def _text_of(value: str | float) -> str:
    return value.strip() if isinstance(value, str) else repr(value)


@lru_cache(maxsize=16384)
def _read(text: str) -> _Amount:
    match = _TEXT.fullmatch(text) if 0 < len(text) <= MAX_LENGTH else None
    if match is None:
        raise ModelError("", RULE)
    whole, part, suffix = match["whole"] or "0", match["part"] or "", match["suffix"]
    is_binary, is_plain = suffix in _BINARY, suffix in _DECIMAL
    exponent = _BINARY[suffix] if is_binary else _exponent_of(suffix)
    is_short = _is_short(whole, part, exponent, is_binary)
    if not is_short and not (match["zeros"] or match["whole"] or part):
        raise ModelError("", RULE)
    scale = -len(part) if is_binary else exponent - len(part)
    unit = Fraction(2**exponent) if is_binary else Fraction(1)
    size = _rounded_up(int(whole + part) * unit * Fraction(10) ** scale, _NANO)
    if is_binary and not is_short:
        size = min(size, Fraction(INT64_MAX))
        is_binary = size >= 1
    stays = is_short and _stays(whole, part, exponent, scale, suffix in _BINARY)
    # What has so large an exponent is no amount of anything.
    stays = stays or abs(exponent) > _MAX_EXPONENT
    has_exponent = not is_plain and suffix not in _BINARY
    return _Amount(text, size, match["sign"] == "-", is_binary, has_exponent, scale, stays, is_short)


def _exponent_of(suffix: str) -> int:
    """The power of ten of a suffix; its digits are cut before conversion, as they may be many."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    digits = suffix[1:].lstrip("+-").lstrip("0")
    size = int(digits or 0) if len(digits) <= 4 else _MAX_EXPONENT + 1
    return -size if suffix[1] == "-" else size


def _is_short(whole: str, part: str, exponent: int, is_binary: bool) -> bool:
    """Whether Kubernetes reads it as a 64-bit integer and a power of ten."""
    if not is_binary:
        return len(whole) + len(part) <= 18 and exponent - len(part) >= _NANO
    return not part and len(whole) + exponent * 3 // 10 <= 14 and int(whole) << exponent <= INT64_MAX


def _stays(whole: str, part: str, exponent: int, scale: int, is_binary: bool) -> bool:
    """Whether Kubernetes takes the text for the shortest form, and keeps it."""
    digits = whole + part
    if is_binary:
        return exponent % 10 == 0 and int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _rounded_up(value: Fraction, exponent: int) -> Fraction:
    """The next multiple of a (negative) power of ten."""
    scaled = value * 10**-exponent
    return Fraction(-(-scaled.numerator // scaled.denominator), 10**-exponent)


def _written(value: Fraction, is_binary: bool, has_exponent: bool) -> str:
    """The shortest text of a value that is not negative, in its format."""
    if not value:
        return "0"
    if is_binary and value >= 1024 and value.denominator == 1:
        amount, power = value.numerator, 0
        while amount % 1024 == 0:
            amount, power = amount >> 10, power + 1
        return f"{amount}{_BINARY_SUFFIXES[power]}"
    power = _NANO
    amount = int(value * 10**-_NANO)
    while amount % 1000 == 0:
        amount, power = amount // 1000, power + 3
    if has_exponent and power:
        return f"{amount}e{power}"
    # As in Kubernetes, an amount of more than the largest suffix loses it.
    return f"{amount}{_SUFFIXES.get(power, '')}"
