"""Ages as kubectl and the API server print them (HumanDuration of apimachinery)."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "<unknown>"
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def human_duration(seconds: float) -> str:
    """At most two units: `90s`, `5m30s`, `45m`, `3h20m`, `20h`, `2d5h`, `30d`, `2y40d`, `9y`.

    A duration of less than -1 s is `<invalid>`.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(0, whole)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _pair(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _pair(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _pair(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _pair(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _pair(seconds: int, coarse: int, coarse_unit: str, fine: int, fine_unit: str) -> str:
    whole, rest = divmod(seconds, coarse)
    parts = rest // fine
    return f"{whole}{coarse_unit}{parts}{fine_unit}" if parts else f"{whole}{coarse_unit}"


def age(created: float, now: float) -> str:
    """Age of an object that was created at `created` (seconds since the epoch; 0: unknown)."""
    return human_duration(now - created) if created else UNKNOWN
