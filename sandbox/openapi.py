"""OpenAPI documents: v3 per group and version from CRD schemas and a compact table of the built-in types."""

from __future__ import annotations

import hashlib

from aiohttp import web

from sandbox import errors
from sandbox.bodies import encode
from sandbox.kinds import ApiKind, KindTable
from sandbox.objects import Obj
from sandbox.openapi_schemas import add_schemas, gvk_of, schema_name
from sandbox.responses import json_response

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE, _RELEASE = b"Kubernetes", b"v1.33.0"
_QUERY_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def _proto_text(number: int, text: bytes) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text


# The smallest v2 document in protobuf (swagger "2.0", info, empty paths). kubectl 1.30 and later read v3 and
# ask for v2 only to find out that it says nothing more.
_V2_EMPTY = (
    _proto_text(1, b"2.0")
    + _proto_text(2, _proto_text(1, _TITLE) + _proto_text(2, _RELEASE))
    + _proto_text(8, b"")
)


class OpenApi:
    """Documents, built when asked for and kept until the table of kinds changes."""

    def __init__(self, kinds: KindTable) -> None:
        self._kinds = kinds
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def v2(self, accept: str) -> web.Response:
        """`/openapi/v2`: no definitions, in protobuf or JSON."""
        if "protobuf" in accept:
            return web.Response(body=_V2_EMPTY, content_type=_V2_PROTOBUF)
        info = {"title": _TITLE.decode(), "version": _RELEASE.decode()}
        return json_response(encode({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}))

    def v3(self, path: str) -> bytes:
        """The document of `api/v1`, `apis/group/version`, or "" for the index. Raises NotFound."""
        if self._revision != self._kinds.revision:
            self._documents.clear()
            self._revision = self._kinds.revision
        found = self._documents.get(path)
        if found is None:
            found = self._documents[path] = encode(self._document(path) if path else self._index())
        return found

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
