"""Evaluation of CRD validation rules (`x-kubernetes-validations`) at all levels of a custom object.

A rule that `sandbox.cel.evaluation` does not support is reported as a failed rule with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from sandbox.cel.evaluation import Expression, compile_expression
from sandbox.cel.syntax import CelError
from sandbox.errors import StatusCause
from sandbox.objects import Obj

Schema = dict[str, Any]
_RULES = "x-kubernetes-validations"
_SELF = frozenset({"self", "oldSelf"})
# Longer messages, and those of several lines, are not shown.
_MOST_MESSAGE: Final = 5 * 1024
_REASONS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


def causes(schema: Schema, obj: Obj, old: Obj | None) -> list[StatusCause]:
    """Errors of failed rules. A rule with `oldSelf` is evaluated on updates only."""
    return list(_walk(schema, obj, old, ""))


def _walk(schema: Schema, value: Any, old: Any, path: str) -> Iterator[StatusCause]:
    for rule in schema.get(_RULES) or ():
        yield from _judge(rule, schema, value, old, path)
    if isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            inner = properties.get(key, extra)
            if isinstance(inner, dict):
                before = old.get(key) if isinstance(old, dict) else None
                place = f"{path}[{key}]" if key not in properties else f"{path}.{key}" if path else key
                yield from _walk(inner, item, before, place)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _walk(schema["items"], item, _earlier(schema, item, old), f"{path}[{index}]")


def _earlier(schema: Schema, item: Any, old: Any) -> Any:
    """The old entry with the same map keys; None for lists without map keys."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return None
    return next((entry for entry in old if all(entry.get(key) == item.get(key) for key in keys)), None)


def _judge(rule: Obj, schema: Schema, value: Any, old: Any, path: str) -> Iterator[StatusCause]:
    text = rule.get("rule", "")
    if "oldSelf" in text and old is None and not rule.get("optionalOldSelf"):
        return
    problem = _problem(text, value, old)
    if problem is None:
        return
    message = _message(rule, value, old) or rule.get("message") or f"failed rule: {text}"
    if problem:
        message = f"rule evaluation error: {problem}"
    field = path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "").lstrip(".")
    reason = rule.get("reason", "FieldValueInvalid")
    label = _REASONS.get(reason, "Invalid value")
    shown = f"{label}: {_shown(value)}" if reason == "FieldValueInvalid" else f"{label}: "
    yield StatusCause(reason, f"{shown}{message}", field)


def _message(rule: Obj, value: Any, old: Any) -> str:
    """The text of `messageExpression`, empty where kube-apiserver falls back to `message`."""
    expression = rule.get("messageExpression")
    if not expression:
        return ""
    try:
        text = _compiled(expression).evaluate({"self": value, "oldSelf": old})
    except CelError:
        return ""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text) > _MOST_MESSAGE else text


def _shown(value: Any) -> str:
    """The value in front of a message; kube-apiserver leaves objects and lists out."""
    return "" if isinstance(value, dict | list) else f"{json.dumps(value, ensure_ascii=False)}: "


def _problem(text: str, value: Any, old: Any) -> str | None:
    """None if the rule holds, "" if it fails, otherwise the evaluation error."""
    try:
        return None if _compiled(text).holds({"self": value, "oldSelf": old}) else ""
    except CelError as error:
        return str(error)


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Expression:
    return compile_expression(text, _SELF)
