"""Ages as kubectl shows them: `42s`, `3m5s`, `2h`, `5d3h`."""

from __future__ import annotations

import datetime as dt
from typing import Any


def human_duration(seconds: float) -> str:
    """The short form of a duration: at most two units, one where the second says little."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    total = max(total, 0)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def parse_time(text: Any) -> dt.datetime | None:
    """An RFC 3339 time, None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def age(text: Any, now: dt.datetime, unknown: str = "<unknown>") -> str:
    """How long ago a timestamp was."""
    moment = parse_time(text)
    return human_duration((now - moment).total_seconds()) if moment else unknown
