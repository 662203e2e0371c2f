"""Reads the conditions of objects, and builds conditions to write."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from scheduler_core.model.timestamps import format_time

# The API server refuses longer messages of conditions.
LONGEST_MESSAGE: Final = 32768


class ObjectCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of any object: all fields that the API has for it."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


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


def says(old: ObjectCondition | None, body: dict[str, Any]) -> bool:
    """Whether a condition as read has the status, reason and message of a body to write."""
    if old is None:
        return False
    return (old.status, old.reason, old.message) == (body["status"], body["reason"], body["message"])


def observing(found: dict[str, Any], generation: int) -> dict[str, Any]:
    """The body of a condition with the generation of the spec that it was computed from; 0: unknown."""
    return {**found, "observedGeneration": generation} if generation else found


def as_written(found: ObjectCondition) -> dict[str, Any]:
    """The body of a condition that another writer owns, to send it back as it was read."""
    body: dict[str, Any] = {"type": found.type, "status": found.status, "reason": found.reason}
    body["message"] = found.message
    if found.last_transition_time is not None:
        body["lastTransitionTime"] = format_time(found.last_transition_time.timestamp())
    return observing(body, found.observed_generation)
