"""Parses and formats Go durations (`15s`, `1h30m`, `250ms`); values are seconds."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_UNITS: Final[dict[str, Fraction]] = {
    "ns": Fraction(1, 1_000_000_000),
    "us": Fraction(1, 1_000_000),
    "µs": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1_000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(ns|us|µs|ms|s|m|h)")
_LIMIT: Final = Fraction(2**63 - 1, 1_000_000_000)


def parse_duration(text: str) -> float | None:
    """Seconds in `text`, or None if it is not a Go duration or beyond int64 nanoseconds."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    total = Fraction(0)
    end = 0
    while end < len(rest):
        match = _PART.match(rest, end)
        if match is None:
            return None
        total += Fraction("0" + match[1].rstrip(".")) * _UNITS[match[2]]
        end = match.end()
    if not rest or total > _LIMIT:
        return None
    return float(sign * total)


def format_duration(seconds: float) -> str:
    """`seconds` as Go prints a duration: `15s`, `1m30s`, `2h0m0s`, `250ms`."""
    if seconds == 0:
        return "0s"
    sign, nanoseconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    left = round(nanoseconds * 1_000_000_000)
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if left < size * 1_000:
            return f"{sign}{_decimal(left, size)}{unit}"
    minutes, rest = divmod(left, 60_000_000_000)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(amount: int, size: int) -> str:
    whole, part = divmod(amount, size)
    if not part:
        return str(whole)
    digits = str(part).zfill(len(str(size)) - 1).rstrip("0")
    return f"{whole}.{digits}"
