"""Reads the conditions of objects, and builds conditions to write."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from scheduler_core.model.timestamps import format_time


class ObjectCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of any object."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


def find(conditions: Iterable[ObjectCondition] | None, type_: str) -> ObjectCondition | None:
    """The condition of the given type, or None."""
    return next((condition for condition in conditions or () if condition.type == type_), None)


def condition(
    type_: str, status: bool, reason: str, message: str, now: float, old: ObjectCondition | None = None
) -> dict[str, Any]:
    """The body of a condition; the transition time of `old` stays if the status did not change."""
    text = "True" if status else "False"
    moment = format_time(now)
    if old is not None and old.status == text and old.last_transition_time is not None:
        moment = format_time(old.last_transition_time.timestamp())
    return {
        "type": type_,
        "status": text,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment,
    }
