"""Schemas of OpenAPI v3 in the words of v2, which knows fewer.

Clients of v2 refuse fields beside those that are listed, so where others may be, none is listed.
"""

from __future__ import annotations

from typing import Any

from sandbox.objects import Obj

_V3, _V2 = "#/components/schemas/", "#/definitions/"
_UNKNOWN = ("allOf", "anyOf", "not", "nullable", "oneOf")
_PRESERVE, _KIND = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-group-version-kind"


def definition(schema: Obj) -> Obj:
    """The definition of a kind or type; of one that keeps unknown fields nothing but that it is an object."""
    if schema.get(_PRESERVE):
        return {"type": "object"} | ({_KIND: schema[_KIND]} if _KIND in schema else {})
    return _converted(schema)


def _converted(schema: Obj) -> Obj:
    found = {key: value for key, value in schema.items() if key not in _UNKNOWN}
    for part in schema.get("allOf") or ():
        if "$ref" in part:
            found["$ref"] = part["$ref"]
    if "$ref" in found:
        found["$ref"] = str(found["$ref"]).replace(_V3, _V2)
    if schema.get("nullable") or schema.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
    if schema.get("nullable") or schema.get(_PRESERVE):
        for key in ("items", "properties"):
            found.pop(key, None)
    if "properties" in found:
        _convert_properties(found)
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _converted(found[key])
    return found


def _convert_properties(found: Obj) -> None:
    properties: dict[str, Any] = found["properties"]
    found["properties"] = {name: _converted(inner) for name, inner in properties.items()}
    nullable = {name for name, inner in properties.items() if inner.get("nullable")}
    required = [name for name in found.pop("required", None) or () if name not in nullable]
    if required:
        found["required"] = required
