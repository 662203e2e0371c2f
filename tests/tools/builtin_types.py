"""Write `sandbox/kinds/builtin_types.json`: field names, types and merge keys of the built-in kinds.

    python tests/tools/builtin_types.py [--documents FILE]

reads the OpenAPI v3 documents of a real kube-apiserver, which it starts (or FILE: a JSON object of documents
by path), and keeps the types that the sandbox's kinds reach. Run it to follow a new Kubernetes release.

A type is written as `string`, `integer`, `number`, `boolean`, `any`, `quantity`, `int-or-string`, `time`, a
type name, `[]T` for lists or `{}T` for maps.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sandbox.kinds.builtin import BUILTIN, EVENTS
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import NEWEST, SERVERS, request

TARGET = Path(__file__).parents[2] / "sandbox" / "kinds" / "builtin_types.json"
SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": "any",
}


def documents() -> dict[str, Any]:
    """The OpenAPI v3 documents by path: of the newest kube-apiserver, and what only the pinned one serves."""
    found = {}
    # The newest last: what both serve is as in the release that the sandbox follows.
    for apiserver in (SERVERS[1], NEWEST):
        with ControlPlane(apiserver=apiserver) as server:
            paths = request(server, "GET", "/openapi/v3")["paths"]
            found |= {path: request(server, "GET", f"/openapi/v3/{path}", timeout=30) for path in paths}
    return found


def type_text(schema: dict[str, Any]) -> str:
    """The short form of a field's schema."""
    reference = schema.get("$ref") or next(
        (part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), ""
    )
    if reference:
        name = reference.rpartition("/")[2]
        return SPECIAL.get(name, name)
    if schema.get("type") == "array":
        return "[]" + type_text(schema["items"])
    if schema.get("type") == "object":
        extra = schema.get("additionalProperties")
        return "{}" + type_text(extra) if isinstance(extra, dict) else "any"
    return str(schema.get("type", "any"))


def reach(schemas: dict[str, Any], roots: list[str]) -> dict[str, Any]:
    """The table of all types that the roots lead to."""
    types: dict[str, Any] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in types or name not in schemas:
            continue
        fields = {}
        for field, schema in sorted(schemas[name].get("properties", {}).items()):
            text = type_text(schema)
            waiting.append(text.lstrip("[]{}"))
            key = schema.get("x-kubernetes-patch-merge-key", "")
            merges = "merge" in schema.get("x-kubernetes-patch-strategy", "")
            fields[field] = f"{text}@{key}" if merges and text.startswith("[]") else text
        types[name] = {"fields": fields, "required": schemas[name].get("required", [])}
    return types


def main() -> None:
    """Read the documents and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=Path)
    given = parser.parse_args().documents
    schemas: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for document in (json.loads(given.read_text()) if given else documents()).values():
        found = document.get("components", {}).get("schemas", {})
        schemas |= found
        for name, schema in found.items():
            for gvk in schema.get("x-kubernetes-group-version-kind", ()) if isinstance(schema, dict) else ():
                version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
                kinds[f"{version} {gvk['kind']}"] = name
    # No release serves v1 of the groups yet; it will be v1beta1 under another name.
    kinds |= {
        name.replace("/v1beta1 ", "/v1 "): schema
        for name, schema in list(kinds.items())
        if name.startswith("scheduling.k8s.io/v1beta1 ")
    }
    wanted = {f"{kind.api_version} {kind.kind}": kinds[f"{kind.api_version} {kind.kind}"] for kind in BUILTIN}
    wanted |= {
        key: kinds[key]
        for key in (
            "v1 Binding",
            "policy/v1 Eviction",
            "autoscaling/v1 Scale",
            "authentication.k8s.io/v1 TokenRequest",
        )
    }
    assert wanted[f"{EVENTS.api_version} Event"], "core events have a schema"
    table = {"kinds": wanted, "types": reach(schemas, list(wanted.values()))}
    lines = [
        f"  {json.dumps(name)}: {json.dumps(table['types'][name], sort_keys=True)}"
        for name in sorted(table["types"])
    ]
    kinds_text = json.dumps(wanted, indent=1, sort_keys=True)
    TARGET.write_text('{"kinds": ' + kinds_text + ',\n "types": {\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main()
