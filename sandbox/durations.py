"""Timestamps of objects, and their ages in tables."""

from __future__ import annotations

import datetime as dt
from typing import Any

from scheduler_core.model.timestamps import parse_time
from scheduler_core.printing.age import UNKNOWN, human_duration


def time_of(text: Any) -> float | None:
    """Seconds since the epoch of an RFC 3339 time, None for anything else."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


def age(text: Any, now: dt.datetime, unknown: str = UNKNOWN) -> str:
    """The age of an object with this RFC 3339 timestamp."""
    moment = time_of(text)
    return unknown if moment is None else human_duration(now.timestamp() - moment)
