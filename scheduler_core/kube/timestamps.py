"""Kubernetes timestamps (RFC 3339, UTC) from seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def timestamp(now: float) -> str:
    """metav1.Time: whole seconds, `2026-01-01T00:00:00Z`."""
    return f"{_to_seconds(int(now))}Z"


def micro_timestamp(now: float) -> str:
    """metav1.MicroTime: microseconds, `2026-01-01T00:00:00.000000Z`."""
    whole, micro = divmod(round(now * 1e6), 1_000_000)
    return f"{_to_seconds(whole)}.{micro:06d}Z"


@lru_cache(4)
def _to_seconds(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S")
