"""OpenAPI documents: v3 per group and version, and v2 for all kinds.

Schemas come from CRDs and from the table of built-in types. OpenAPI v2 has fewer keywords, and its clients
refuse fields that are not listed; so a v2 definition that allows unknown fields lists no fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from aiohttp import web

from sandbox import errors
from sandbox.api.responses import json_response
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.kinds.builtin_types import OBJECT_META, RELEASE, BuiltinField, fields_of, required_of, type_of
from sandbox.objects import Obj, encode_json

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_KEY = "v2"
_TITLE, _RELEASE = b"Kubernetes", f"v{RELEASE}".encode()
_QUERY_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def _proto_text(number: int, text: bytes) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text


# The smallest v2 document in protobuf (swagger "2.0", info, empty paths). kubectl 1.30 and later use v3 and
# request this document only as an addition.
_V2_EMPTY = (
    _proto_text(1, b"2.0")
    + _proto_text(2, _proto_text(1, _TITLE) + _proto_text(2, _RELEASE))
    + _proto_text(8, b"")
)


class OpenApi:
    """OpenAPI documents, built on request and cached until the table of kinds changes."""

    def __init__(self, kinds: KindTable) -> None:
        self._kinds = kinds
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def v2(self, accept: str, known: str = "") -> web.Response:
        """`/openapi/v2`: all definitions in JSON, none in protobuf; `known` is the client's ETag."""
        if "protobuf" in accept:
            return web.Response(body=_V2_EMPTY, content_type=_V2_PROTOBUF)
        body = self._kept(_V2_KEY, self._definitions)
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        response = web.Response(status=304) if known == tag else json_response(body)
        response.headers["ETag"] = tag
        return response

    def v3(self, path: str) -> bytes:
        """The v3 document of `api/v1` or `apis/group/version`, or the index for "". Raises NotFound."""
        return self._kept(path, lambda: self._document(path) if path else self._index())

    def _kept(self, key: str, make: Callable[[], Obj]) -> bytes:
        if self._revision != self._kinds.revision:
            self._documents.clear()
            self._revision = self._kinds.revision
        found = self._documents.get(key)
        if found is None:
            found = self._documents[key] = encode_json(make())
        return found

    def _definitions(self) -> Obj:
        schemas: Obj = {}
        for kind in self._kinds:
            add_schemas(kind, schemas)
        return {
            "swagger": "2.0",
            "info": {"title": _TITLE.decode(), "version": _RELEASE.decode()},
            "paths": {},
            "definitions": {name: definition(schema) for name, schema in schemas.items()},
        }

    def _index(self) -> Obj:
        paths = {}
        for group, versions in self._kinds.groups().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = hashlib.sha256(self.v3(name)).hexdigest()[:32].upper()
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        return {"paths": paths}

    def _document(self, path: str) -> Obj:
        prefix, _, rest = path.partition("/")
        group, version = ("", rest) if prefix == "api" else tuple(rest.rpartition("/")[::2])
        kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
        if not kinds or prefix not in ("api", "apis"):
            raise errors.no_such_path()
        schemas: Obj = {}
        paths: Obj = {}
        for kind in kinds:
            add_schemas(kind, schemas)
            paths |= _paths(kind, f"/{path}")
        return {
            "openapi": "3.0.0",
            "info": {"title": _TITLE.decode(), "version": _RELEASE.decode()},
            "paths": paths,
            "components": {"schemas": schemas},
        }


def _paths(kind: ApiKind, prefix: str) -> Obj:
    place = (
        f"{prefix}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    )
    paths = {
        place: {
            "get": _operation(kind, "list", f"{kind.plural} list"),
            "post": _operation(kind, "post", f"create {kind.kind}"),
        },
        f"{place}/{{name}}": {
            "get": _operation(kind, "get", f"read {kind.kind}"),
            "put": _operation(kind, "put", f"replace {kind.kind}"),
            "patch": _operation(kind, "patch", f"patch {kind.kind}"),
            "delete": _operation(kind, "delete", f"delete {kind.kind}"),
        },
    }
    if kind.namespaced:
        paths[f"{prefix}/{kind.plural}"] = {"get": _operation(kind, "list", f"{kind.plural} list")}
    return paths


def _operation(kind: ApiKind, action: str, description: str) -> Obj:
    reference = {"$ref": f"#/components/schemas/{schema_name(kind)}"}
    operation: Obj = {
        "description": description,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk_of(kind),
    }
    if action in ("post", "put", "patch"):
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _QUERY_PARAMETERS
        ]
    return operation


_V3, _V2 = "#/components/schemas/", "#/definitions/"
_UNKNOWN = ("allOf", "anyOf", "not", "nullable", "oneOf")
_PRESERVE, _KIND = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-group-version-kind"


def definition(schema: Obj) -> Obj:
    """The v2 definition of a v3 schema; only `type: object` for a schema that preserves unknown fields."""
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


_PLAIN: dict[str, Obj] = {
    "quantity": {"type": "string", "description": "A quantity such as 500m, 2 or 20Gi."},
    "int-or-string": {"x-kubernetes-int-or-string": True, "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "time": {"type": "string", "format": "date-time"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_NO_TEXTS = "The sandbox publishes names and types of built-in fields, and descriptions of metadata only."
_METADATA_TEXTS = {
    "annotations": "Annotations are texts for programs and people; selectors cannot use them.",
    "creationTimestamp": "CreationTimestamp is the time of the server's clock when it stored the object.",
    "deletionGracePeriodSeconds": "Seconds that a deleted object has for a graceful end.",
    "deletionTimestamp": "Time by which a deleted object is to be removed; unset before deletion.",
    "finalizers": "Names that must be removed, each by its owner, before a deleted object is removed.",
    "generateName": "Prefix of the name that the server generates if `name` is missing.",
    "generation": "Number of changes of the desired state.",
    "labels": "Keys and values for selectors.",
    "managedFields": "Fields that each manager applied.",
    "name": "Name of the object, unique for its kind in its namespace.",
    "namespace": "Namespace of the object; unset for cluster-scoped objects.",
    "ownerReferences": "Objects that own this object; it is deleted with the last of them.",
    "resourceVersion": "Changes with every write; a write with an older value is refused.",
    "uid": "Unique identifier of the object over time, also among objects with the same name.",
}


def gvk_of(kind: ApiKind) -> Obj:
    """The value of `x-kubernetes-group-version-kind`."""
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def schema_name(kind: ApiKind) -> str:
    """The name of a kind's schema in kube-apiserver's reverse-domain form."""
    if not kind.custom:
        return type_of(kind.api_version, kind.kind) or f"io.k8s.api.{kind.version}.{kind.kind}"
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def add_schemas(kind: ApiKind, schemas: Obj) -> None:
    """Add a kind's schema and all schemas that it references to `schemas`."""
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


def _field_schema(field: BuiltinField) -> Obj:
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
