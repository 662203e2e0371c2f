"""Quantities in tables: `500m`, `2`, `1.5Gi`, cut after two decimals. JSON and YAML hold exact values."""

from __future__ import annotations

from typing import Final

from scheduler_core.model.quantity import format_resource, is_bytes

_UNITS: Final = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def human(resource: str, value: int) -> str:
    """Text of a value in the unit of its resource (milli for CPU); bytes in the largest unit that fits.

    The text is cut after two decimals, not rounded, so that a value below a limit never reads as the limit.
    """
    if not is_bytes(resource):
        return format_resource(resource, value)
    size = abs(value)
    for suffix, bits in _UNITS:
        if size >> bits:
            whole, rest = divmod(size * 100 >> bits, 100)
            decimals = f".{rest:02d}".rstrip("0") if rest else ""
            return f"{'-' if value < 0 else ''}{whole}{decimals}{suffix}"
    return str(value)
