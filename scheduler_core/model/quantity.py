"""Parses and formats Kubernetes quantities as exact integers.

The grammar is that of `resource.Quantity`: a signed decimal number and one suffix, either binary (Ki..Ei),
decimal (n, u, m, none, k..E) or an exponent (e3, E-2). The value is returned as an integer in a unit of
10^-scale (scale 3 for CPU in milli, 0 for everything else), rounded in the direction that the caller names:
requests round up, capacity rounds down. Values beyond int64 saturate, as they do in Kubernetes.

Text is bounded before any arithmetic, so `1e9999999` costs nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from scheduler_core.errors import ModelError
from scheduler_core.model import names

Rounding = Literal["up", "down"]

INT64_MAX: Final = 2**63 - 1
MAX_LENGTH: Final = 64
# Beyond this exponent any non-zero number of MAX_LENGTH digits saturates, or is below one nano.
_MAX_EXPONENT: Final = 200

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<frac>[0-9]*))?|\.(?P<only>[0-9]+))"
    r"(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]+)?"
)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@lru_cache(maxsize=1024)
def scale_of(resource: str) -> int:
    """Decimal places kept for a resource: 3 for CPU (milli), 0 for all others.

    `requests.cpu` and `limits.cpu`, the names of ResourceQuota, count as CPU.
    """
    bare = resource.removeprefix(names.REQUESTS_PREFIX).removeprefix(names.LIMITS_PREFIX)
    return 3 if bare == names.CPU else 0


@lru_cache(maxsize=16384)
def _parse(text: str, scale: int, rounding: Rounding) -> int:
    if len(text) > MAX_LENGTH:
        raise ModelError("", f"quantity of {len(text)} characters is too long (at most {MAX_LENGTH})")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ModelError("", f"{text!r} is not a quantity such as 500m, 4 or 1.5Gi")
    whole, frac = match["whole"] or "", match["frac"] or match["only"] or ""
    digits = int(whole + frac)
    suffix = match["suffix"] or ""
    power = scale - len(frac)
    numerator = digits
    if suffix in _BINARY:
        numerator <<= _BINARY[suffix]
    elif suffix in _DECIMAL:
        power += _DECIMAL[suffix]
    elif suffix:
        # The exponent's digits are cut before conversion: int() of a long string is the cost to avoid.
        exponent = suffix[1:].lstrip("+")
        large = len(exponent.lstrip("-").lstrip("0")) > 4
        power += (-_MAX_EXPONENT if exponent[0] == "-" else _MAX_EXPONENT) if large else int(exponent)
    power = max(-_MAX_EXPONENT, min(_MAX_EXPONENT, power))
    if match["sign"] == "-":
        numerator = -numerator
    if power >= 0:
        value = numerator * 10**power
    else:
        divisor = 10**-power
        value = -(-numerator // divisor) if rounding == "up" else numerator // divisor
    return max(-INT64_MAX, min(INT64_MAX, value))


def parse_quantity(value: object, *, scale: int = 0, rounding: Rounding = "up") -> int:
    """Integer value of a quantity in units of 10^-scale.

    Accepts a string, or the bare number that YAML and int-or-string fields allow.
    Raises ModelError (with an empty path: the caller knows the field) for anything else.
    """
    if isinstance(value, str):
        return _parse(value, scale, rounding)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError("", f"{value!r} is not a quantity such as 500m, 4 or 1.5Gi")
    if isinstance(value, float):
        # repr gives the shortest text that reads back as the same number: what the user wrote.
        return _parse(repr(value), scale, rounding)
    if abs(value) > INT64_MAX:
        return INT64_MAX if value > 0 else -INT64_MAX
    return value * 10**scale


def parse_resource(resource: str, value: object, *, rounding: Rounding = "up") -> int:
    """Quantity of a named resource in its own unit (milli for CPU)."""
    return parse_quantity(value, scale=scale_of(resource), rounding=rounding)


def is_counted(resource: str) -> bool:
    """Whether a resource is counted in whole units, as in Kubernetes: pods and extended resources."""
    return resource == names.PODS or ("/" in resource and "kubernetes.io/" not in resource)


def is_whole(value: object) -> bool:
    """Whether a quantity is a whole number. Raises ModelError as `parse_quantity` does."""
    return parse_quantity(value, rounding="up") == parse_quantity(value, rounding="down")


def _decimal(value: int, scale: int) -> str:
    if scale and value % 10**scale:
        return f"{value}m" if scale == 3 else f"{value}e-{scale}"
    return str(value // 10**scale)


def _binary(value: int) -> str:
    for suffix, bits in reversed(_BINARY.items()):
        if value and value % (1 << bits) == 0:
            return f"{value >> bits}{suffix}"
    return str(value)


def format_resource(resource: str, value: int) -> str:
    """Canonical text of a value in the resource's own unit: `1500m`, `2`, `20Gi`, `7`.

    Exact: parsing the text gives the value back. Byte-sized resources use binary suffixes.
    """
    scale = scale_of(resource)
    if scale:
        return _decimal(value, scale)
    return _binary(value) if is_bytes(resource) else str(value)


def is_bytes(resource: str) -> bool:
    """Whether a resource counts bytes, so that people read it with binary suffixes."""
    bare = resource.removeprefix(names.REQUESTS_PREFIX).removeprefix(names.LIMITS_PREFIX)
    return bare in (names.MEMORY, names.EPHEMERAL_STORAGE, "storage") or bare.startswith(
        names.HUGEPAGES_PREFIX
    )
