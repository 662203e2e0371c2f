"""OpenAPI documents: v3 per group and version from CRD schemas and a compact table of the built-in types."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from aiohttp import web

from sandbox import errors
from sandbox.bodies import encode
from sandbox.kinds import ApiKind, KindTable
from sandbox.objects import Obj
from sandbox.openapi_schemas import add_schemas, gvk_of, schema_name
from sandbox.openapi_v2 import definition
from sandbox.responses import json_response

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_KEY = "v2"
_TITLE, _RELEASE = b"Kubernetes", b"v1.33.0"
_QUERY_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def _proto_text(number: int, text: bytes) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text


# The smallest v2 document in protobuf (swagger "2.0", info, empty paths). kubectl 1.30 and later read v3 and
# ask for this only to find out that it says nothing more.
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

    def v2(self, accept: str, known: str = "") -> web.Response:
        """`/openapi/v2`: all definitions in JSON, none in protobuf; `known` is the ETag that a client has."""
        if "protobuf" in accept:
            return web.Response(body=_V2_EMPTY, content_type=_V2_PROTOBUF)
        body = self._kept(_V2_KEY, self._definitions)
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        response = web.Response(status=304) if known == tag else json_response(body)
        response.headers["ETag"] = tag
        return response

    def v3(self, path: str) -> bytes:
        """The document of `api/v1`, `apis/group/version`, or "" for the index. Raises NotFound."""
        return self._kept(path, lambda: self._document(path) if path else self._index())

    def _kept(self, key: str, make: Callable[[], Obj]) -> bytes:
        if self._revision != self._kinds.revision:
            self._documents.clear()
            self._revision = self._kinds.revision
        found = self._documents.get(key)
        if found is None:
            found = self._documents[key] = encode(make())
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
