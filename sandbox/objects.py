"""Helpers for API objects as plain dicts and lists."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import msgspec

from scheduler_core.model.timestamps import format_time

Obj = dict[str, Any]
encode_json = msgspec.json.Encoder().encode


def copy_json(value: Any) -> Any:
    """A deep copy of JSON data, several times faster than copy.deepcopy."""
    if isinstance(value, dict):
        return {
            key: copy_json(item) if isinstance(item, dict | list) else item for key, item in value.items()
        }
    if isinstance(value, list):
        return [copy_json(item) if isinstance(item, dict | list) else item for item in value]
    return value


def rfc3339(moment: dt.datetime) -> str:
    """`2026-01-01T00:00:00Z`, the form of metav1.Time."""
    return format_time(moment.timestamp())


def now() -> dt.datetime:
    """The wall clock in UTC."""
    return dt.datetime.now(dt.UTC)


def at(obj: Any, *path: str) -> Any:
    """`obj[path[0]][path[1]]...`; None if a key is missing or a parent is not an object."""
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def absolute(value: object, total: int, *, up: bool) -> int:
    """An int-or-percent field as a number; `up` rounds a percentage of `total` up, otherwise down."""
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    share = total * int(text[:-1]) / 100
    return math.ceil(share) if up else math.floor(share)


def with_meta(obj: Obj, **fields: Any) -> Obj:
    """A shallow copy of the object with changed metadata fields; None removes a field."""
    meta = {**obj["metadata"], **fields}
    return {**obj, "metadata": {key: value for key, value in meta.items() if value is not None}}


def condition_now(kind: str, status: bool, reason: str, message: str) -> Obj:
    """A condition whose last transition is now."""
    return {
        "type": kind,
        "status": str(status),
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now()),
    }


def has_condition(obj: Obj | None, kind: str) -> bool:
    """Whether the object says that a condition holds."""
    # An object that was just made may say `conditions: null`.
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return any(item["type"] == kind and item["status"] == "True" for item in found)


def with_condition(status: Obj, condition: Obj) -> Obj:
    """A copy of `status` in which `condition` replaces the condition of its type, or is appended.

    `lastTransitionTime` stays that of the old condition if the condition's status is unchanged.
    """
    conditions = list(status.get("conditions") or ())
    for index, old in enumerate(conditions):
        if old.get("type") != condition["type"]:
            continue
        if old.get("status") == condition.get("status") and "lastTransitionTime" in old:
            condition = {**condition, "lastTransitionTime": old["lastTransitionTime"]}
        conditions[index] = condition
        return {**status, "conditions": conditions}
    return {**status, "conditions": [*conditions, condition]}
