"""Conditions: reading them from objects, and writing them as Kubernetes expects."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec


class ConditionWire(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of any object."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


def find(conditions: Iterable[ConditionWire] | None, type_: str) -> ConditionWire | None:
    """The condition of that type, if it is there."""
    return next((condition for condition in conditions or () if condition.type == type_), None)


def rfc3339(now: float) -> str:
    """Time in the API's text form, whole seconds, UTC."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(now: float) -> str:
    """Time with microseconds, as Events and Leases have it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def condition(
    type_: str, status: bool, reason: str, message: str, now: float, old: ConditionWire | None = None
) -> dict[str, Any]:
    """A condition to write; the transition time stays when the status did not change."""
    text = "True" if status else "False"
    moment = rfc3339(now)
    if old is not None and old.status == text and old.last_transition_time is not None:
        moment = rfc3339(old.last_transition_time.timestamp())
    return {
        "type": type_,
        "status": text,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment,
    }
