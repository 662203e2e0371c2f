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
_NO_TEXTS = "The sandbox publishes the names and types of built-in fields, descriptions of metadata alone."
_METADATA_TEXTS = {
    "annotations": "Annotations are texts for programs and people; nothing is selected by them.",
    "creationTimestamp": "CreationTimestamp is a timestamp of the server's clock when it stored the object.",
    "deletionGracePeriodSeconds": "The seconds that a deleted object has to end in good order.",
    "deletionTimestamp": "When a deleted object has to be gone; objects that are not deleted have none.",
    "finalizers": "Who has to agree before a deleted object goes: each removes its own name.",
    "generateName": "The start of a name that the server completes where `name` is missing.",
    "generation": "Counts the changes of what the object asks for.",
    "labels": "Keys and values by which objects are selected.",
    "managedFields": "Which manager applied which fields.",
    "name": "The name of the object, one of its kind in its namespace.",
    "namespace": "The namespace of the object; objects of the whole cluster have none.",
    "ownerReferences": "The objects that this one goes with.",
    "resourceVersion": "Changes with every write; a write that names an older one is refused.",
    "uid": "Tells the object apart from all that had or will have its name.",
}


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
    properties["apiVersion"] = {
        "type": "string",
        "description": "APIVersion defines the group and version of the object's schema.",
    }
    properties["kind"] = {"type": "string", "description": "Kind of the object."}
    properties["metadata"] = {"description": "Standard object's metadata.", **_reference(OBJECT_META)}
    return schema | {"properties": properties}


def _reference(type_name: str) -> Obj:
    return {"allOf": [{"$ref": f"#/components/schemas/{type_name}"}]}


def _add_type(type_name: str, schemas: Obj) -> None:
    fields = fields_of(type_name)
    if not fields or type_name in schemas:
        return
    schema: Obj = {"type": "object"}
    schemas[type_name] = schema
    texts = _METADATA_TEXTS if type_name == OBJECT_META else {}
    schema["properties"] = {
        key: _field_schema(field) | ({"description": texts[key]} if key in texts else {})
        for key, field in fields.items()
    }
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
