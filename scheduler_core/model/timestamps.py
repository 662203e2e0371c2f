"""Reads and writes the API's timestamps (RFC 3339); times are seconds since the epoch, text is in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from scheduler_core.errors import ModelError


def format_time(seconds: float) -> str:
    """metav1.Time: whole seconds, fractions are dropped: `2026-01-01T00:00:00Z`."""
    return f"{_to_seconds(int(seconds))}Z"


def format_micro_time(seconds: float) -> str:
    """metav1.MicroTime, rounded to microseconds: `2026-01-01T00:00:00.000000Z`."""
    whole, micro = divmod(round(seconds * 1e6), 1_000_000)
    return f"{_to_seconds(whole)}.{micro:06d}Z"


def parse_time(text: str, zone: tzinfo | None = None) -> float:
    """Seconds since the epoch. `zone` applies to a time that has no offset of its own.

    Raises ValueError if `text` is not a time, and if neither the text nor the caller names a zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        if zone is None:
            raise ValueError(f"time {text!r} has no time zone")
        moment = moment.replace(tzinfo=zone)
    return moment.timestamp()


def epoch(moment: datetime | None) -> float | None:
    """Seconds since the epoch of a decoded timestamp. Raises ModelError if it has no time zone."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ModelError("", f"timestamp {moment.isoformat()} has no time zone")
    return moment.timestamp()


@lru_cache(4)
def _to_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
