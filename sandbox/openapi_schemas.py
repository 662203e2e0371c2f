"""Schemas of OpenAPI v3: those of CRDs as they stand, those of built-in kinds from the table of types."""

from __future__ import annotations

from typing import Any

from sandbox.builtin_types import OBJECT_META, Field, fields_of, required_of, type_of
from sandbox.kinds import ApiKind
from sandbox.objects import Obj

_PLAIN: dict[str, Obj] = {
    "quantity": {"type": "string", "description": "A quantity such as 500m, 2 or 20Gi."},
    "int-or-string": {"x-kubernetes-int-or-string": True, "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "time": {"type": "string", "format": "date-time"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_NO_TEXTS = "The sandbox publishes the names and types of built-in fields, not their descriptions."


def gvk_of(kind: ApiKind) -> Obj:
    """The value of `x-kubernetes-group-version-kind`."""
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def schema_name(kind: ApiKind) -> str:
    """The name of a kind's schema, in the reverse-domain form that the API server uses."""
    if not kind.custom:
        return type_of(kind.api_version, kind.kind) or f"io.k8s.api.{kind.version}.{kind.kind}"
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def add_schemas(kind: ApiKind, schemas: Obj) -> None:
    """Put a kind's schema, and what it refers to, into a document's schemas."""
    base: Obj
    if kind.custom:
        base = _custom_schema(kind)
        _add_type(OBJECT_META, schemas)
    else:
        name = schema_name(kind)
        _add_type(name, schemas)
        base = dict(schemas.get(name) or {"type": "object"})
        base["description"] = f"{kind.kind}, version {kind.version}. {_NO_TEXTS}"
    schemas[schema_name(kind)] = base | {"x-kubernetes-group-version-kind": [gvk_of(kind)]}


def _custom_schema(kind: ApiKind) -> Obj:
    schema: dict[str, Any] = dict(kind.custom.schema) if kind.custom else {}
    properties = dict(schema.get("properties") or {})
    properties["apiVersion"] = {"type": "string", "description": "Group and version of the object's schema."}
    properties["kind"] = {"type": "string", "description": "Kind of the object."}
    properties["metadata"] = {"description": "Standard object metadata.", **_reference(OBJECT_META)}
    return schema | {"properties": properties}


def _reference(type_name: str) -> Obj:
    return {"allOf": [{"$ref": f"#/components/schemas/{type_name}"}]}


def _add_type(type_name: str, schemas: Obj) -> None:
    fields = fields_of(type_name)
    if not fields or type_name in schemas:
        return
    schema: Obj = {"type": "object"}
    schemas[type_name] = schema
    schema["properties"] = {key: _field_schema(field) for key, field in fields.items()}
    if required_of(type_name):
        schema["required"] = required_of(type_name)
    for field in fields.values():
        _add_type(field.type, schemas)


def _field_schema(field: Field) -> Obj:
    item = _reference(field.type) if fields_of(field.type) else _PLAIN.get(field.type, {"type": field.type})
    if "." in field.type and not fields_of(field.type):
        item = {"type": "object"}
    if field.is_map:
        return {"type": "object", "additionalProperties": item}
    if not field.is_list:
        return item
    schema: Obj = {"type": "array", "items": item}
    if field.merge_key is not None:
        schema["x-kubernetes-patch-strategy"] = "merge"
        if field.merge_key:
            schema["x-kubernetes-patch-merge-key"] = field.merge_key
    return schema
