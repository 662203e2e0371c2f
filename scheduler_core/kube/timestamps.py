"""Kubernetes timestamps (RFC 3339, UTC) from seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(now: float) -> str:
    """metav1.Time: whole seconds, `2026-01-01T00:00:00Z`."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(now: float) -> str:
    """metav1.MicroTime: microseconds, `2026-01-01T00:00:00.000000Z`."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
