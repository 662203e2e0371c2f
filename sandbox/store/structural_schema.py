"""Structural schemas of CRDs: defaulting, pruning of unknown fields, and validation of custom objects.

Messages and field paths are those of kube-apiserver: `spec.min: Required value`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from sandbox import errors
from sandbox.cel import rule_evaluation
from sandbox.errors import StatusCause
from sandbox.kinds import builtin_types
from sandbox.objects import Obj, copy_json
from scheduler_core.decoding import convert

Schema = dict[str, Any]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_EMBEDDED = "x-kubernetes-embedded-resource"
_TOP = ("apiVersion", "kind", "metadata")


def apply_schema(schema: Schema, obj: Obj) -> list[str]:
    """Prune and default a custom object in place. Returns the paths of the pruned fields."""
    unknown: list[str] = []
    if schema:
        _walk(schema, obj, "", unknown, top=True)
    return unknown


def _walk(schema: Schema, value: Any, path: str, unknown: list[str], top: bool = False) -> None:
    if isinstance(value, dict):
        _walk_object(schema, value, path, unknown, top)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            _walk(schema["items"], item, f"{path}[{index}]", unknown)


def _walk_object(schema: Schema, value: Obj, path: str, unknown: list[str], top: bool) -> None:
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    keeps = bool(schema.get(_PRESERVE)) or bool(extra)
    own = _TOP if top or schema.get(_EMBEDDED) else ()
    for key in list(value):
        if key in own:
            if key == "metadata" and isinstance(value[key], dict):
                builtin_types.prune_metadata(value[key], _join(path, key), unknown)
            continue
        if key in properties:
            if value[key] is None and not properties[key].get("nullable"):
                del value[key]
                continue
            _walk(properties[key], value[key], _join(path, key), unknown)
        elif isinstance(extra, dict):
            if value[key] is None and not extra.get("nullable"):
                del value[key]
                continue
            _walk(extra, value[key], _join(path, key), unknown)
        elif not keeps:
            unknown.append(_join(path, key))
            del value[key]
    for key, inner in properties.items():
        if key not in value and "default" in inner:
            value[key] = copy_json(inner["default"])
            _walk(inner, value[key], _join(path, key), unknown)


def has_defaults(schema: Schema) -> bool:
    """True if any field of a schema has a default."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if "default" in part:
            return True
        inner = [
            *(part.get("properties") or {}).values(),
            part.get("items"),
            part.get("additionalProperties"),
        ]
        waiting += [found for found in inner if isinstance(found, dict)]
    return False


def lacks_defaults(schema: Schema, obj: Obj) -> bool:
    """True if an object lacks a field with a default, which its schema got after the object was stored."""
    waiting: list[tuple[Any, Any]] = [(schema, obj)]
    while waiting:
        part, value = waiting.pop()
        if not isinstance(part, dict):
            continue
        if isinstance(value, list):
            waiting += [(part.get("items"), item) for item in value]
        elif isinstance(value, dict):
            properties, extra = part.get("properties") or {}, part.get("additionalProperties")
            if any("default" in inner and key not in value for key, inner in properties.items()):
                return True
            waiting += [(properties.get(key, extra), item) for key, item in value.items()]
    return False


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def schema_causes(schema: Schema, obj: Obj, old: Obj | None = None) -> list[StatusCause]:
    """Validation errors of a custom object by its schema; if there are none, by its CEL rules."""
    if not schema:
        return []
    causes = list(_check(schema, {key: value for key, value in obj.items() if key not in _TOP}, ""))
    return causes or rule_evaluation.causes(schema, obj, old)


_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def _type_name(value: Any) -> str:
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "null")


def _has_type(value: Any, wanted: str) -> bool:
    found = _type_name(value)
    if wanted == "number":
        return found in ("integer", "number")
    if wanted == "integer":
        return found == "integer" or (isinstance(value, float) and value.is_integer())
    return found == wanted


def _check(schema: Schema, value: Any, path: str) -> Iterator[StatusCause]:
    if value is None and schema.get("nullable"):
        return
    if schema.get(_INT_OR_STRING):
        if not _has_type(value, "integer") and not isinstance(value, str):
            yield _type_cause(path, "integer,string", value)
            return
    elif schema.get("type") and not _has_type(value, schema["type"]):
        yield _type_cause(path, schema["type"], value)
        return
    if "enum" in schema and value not in schema["enum"]:
        yield errors.not_supported(path, value, schema["enum"])
    if isinstance(value, str):
        yield from _check_string(schema, value, path)
    elif isinstance(value, bool):
        pass
    elif isinstance(value, int | float):
        yield from _check_number(schema, value, path)
    elif isinstance(value, list):
        yield from _check_list(schema, value, path)
    elif isinstance(value, dict):
        yield from _check_object(schema, value, path)
    yield from _check_junctors(schema, value, path)


def _type_cause(path: str, wanted: str, value: Any) -> StatusCause:
    found = _type_name(value)
    text = f'{path or "<root>"} in body must be of type {wanted}: "{found}"'
    return StatusCause("FieldValueTypeInvalid", f'Invalid value: "{found}": {text}', path)


def _broken(path: str, value: Any, rule: str) -> StatusCause:
    shown = value if isinstance(value, str | int | float) else _type_name(value)
    return errors.invalid_value(path, shown, f"{path} in body {rule}")


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _is_quantity(text: str) -> bool:
    return (
        _pattern(r"[+-]?(\d+\.?\d*|\.\d+)(m|u|n|k|M|G|T|P|E|[KMGTPE]i|[eE][+-]?\d+)?").fullmatch(text)
        is not None
    )


def _is_date_time(text: str) -> bool:
    try:
        convert(text, dt.datetime)
    except msgspec.ValidationError:
        return False
    return True


_FORMATS: dict[str, Callable[[str], bool]] = {"quantity": _is_quantity, "date-time": _is_date_time}


def _check_string(schema: Schema, value: str, path: str) -> Iterator[StatusCause]:
    if len(value) < schema.get("minLength", 0):
        yield _broken(path, value, f"should be at least {schema['minLength']} chars long")
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        limit = schema["maxLength"]
        yield StatusCause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path)
    if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        yield _broken(path, value, f"should match '{schema['pattern']}'")
    known = _FORMATS.get(schema.get("format", ""))
    if known and not known(value):
        yield _broken(path, value, f'must be of type {schema["format"]}: "{value}"')


def _check_number(schema: Schema, value: float, path: str) -> Iterator[StatusCause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield _broken(path, value, f"should be {words} {low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield _broken(path, value, f"should be {words} {high}")
    if schema.get("multipleOf") and value % schema["multipleOf"]:
        yield _broken(path, value, f"should be a multiple of {schema['multipleOf']}")


def _check_list(schema: Schema, value: list[Any], path: str) -> Iterator[StatusCause]:
    if len(value) < schema.get("minItems", 0):
        yield _broken(path, value, f"should have at least {schema['minItems']} items")
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        text = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        yield StatusCause("FieldValueTooMany", text, path)
    yield from _check_unique(schema, value, path)
    if isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _check(schema["items"], item, f"{path}[{index}]")


def _check_unique(schema: Schema, value: list[Any], path: str) -> Iterator[StatusCause]:
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if list_type not in ("set", "map"):
        return
    seen: list[Any] = []
    for index, item in enumerate(value):
        shown = {key: item.get(key) for key in keys} if keys and isinstance(item, dict) else item
        if shown in seen:
            text = f"Duplicate value: {msgspec.json.encode(shown).decode()}"
            yield StatusCause("FieldValueDuplicate", text, f"{path}[{index}]")
        seen.append(shown)


def _check_object(schema: Schema, value: Obj, path: str) -> Iterator[StatusCause]:
    for key in schema.get("required") or ():
        if key not in value and not (not path and key in _TOP):
            yield errors.required(_join(path, key))
    if len(value) < schema.get("minProperties", 0):
        yield _broken(path, value, f"should have at least {schema['minProperties']} properties")
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        text = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        yield StatusCause("FieldValueTooMany", text, path)
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            yield from _check(properties[key], item, _join(path, key))
        elif isinstance(extra, dict):
            yield from _check(extra, item, _join(path, key))


def _check_junctors(schema: Schema, value: Any, path: str) -> Iterator[StatusCause]:
    for inner in schema.get("allOf") or ():
        yield from _check(inner, value, path)
    if schema.get("anyOf") and not any(_holds(inner, value, path) for inner in schema["anyOf"]):
        yield _broken(path, value, "must validate at least one schema (anyOf)")
    if schema.get("oneOf") and sum(_holds(inner, value, path) for inner in schema["oneOf"]) != 1:
        yield _broken(path, value, "must validate one and only one schema (oneOf)")
    if schema.get("not") and _holds(schema["not"], value, path):
        yield _broken(path, value, "must not validate the schema (not)")


def _holds(schema: Schema, value: Any, path: str) -> bool:
    return next(_check(schema, value, path), None) is None
