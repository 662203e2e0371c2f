"""Conversion of OpenAPI v3 schemas to v2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.api.openapi import definition
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.clusters.server import request

V3, V2 = "#/components/schemas/a.B", "#/definitions/a.B"
AMOUNT = {"x-kubernetes-int-or-string": True}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string"}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("a plain type", {"type": "integer", "default": 1}, {"type": "integer", "default": 1}),
    ("a reference", {"$ref": V3}, {"$ref": V2}),
    ("a text, too", {"description": "d", "allOf": [{"$ref": V3}]}, {"description": "d", "$ref": V2}),
    ("alternatives", {"type": "object", "oneOf": [{}], "anyOf": [{}], "not": {}}, {"type": "object"}),
    ("an amount", {"type": "string", "oneOf": [TEXT], **AMOUNT}, AMOUNT),
    ("items", {"type": "array", "items": {"$ref": V3}}, {"type": "array", "items": {"$ref": V2}}),
    ("maps", {"additionalProperties": {"$ref": V3}}, {"additionalProperties": {"$ref": V2}}),
    ("any map", {"additionalProperties": True}, {"additionalProperties": True}),
    (
        "a field that may be null",
        {"properties": {"a": {"nullable": True, "type": "string"}, "b": TEXT}, "required": ["a", "b"]},
        {"properties": {"a": {}, "b": TEXT}, "required": ["b"]},
    ),
    (
        "none but such fields",
        {"properties": {"a": {"nullable": True, **TEXT}}, "required": ["a"]},
        {"properties": {"a": {}}},
    ),
    (
        "a field that keeps unknown ones",
        {"properties": {"a": {"type": "object", "properties": {"b": TEXT}, **PRESERVE}}},
        {"properties": {"a": {"type": "object", **PRESERVE}}},
    ),
    (
        "a kind that keeps unknown fields",
        {"description": "d", "properties": {"b": TEXT}, "x-kubernetes-group-version-kind": [1], **PRESERVE},
        {"type": "object", "x-kubernetes-group-version-kind": [1]},
    ),
    ("a field with the name of a keyword", {"properties": {"oneOf": TEXT}}, {"properties": {"oneOf": TEXT}}),
]


@pytest.mark.parametrize(("sentence", "schema", "found"), CASES, ids=[case[0] for case in CASES])
def test_schemas(sentence: str, schema: dict[str, Any], found: dict[str, Any]) -> None:
    before = json.dumps(schema)
    assert definition(schema) == found, sentence
    assert json.dumps(schema) == before


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        yield running


def test_every_reference_of_the_document_resolves(server: SandboxServer) -> None:
    document = request(server, "GET", "/openapi/v2")
    wanted = {part.split('"')[0] for part in json.dumps(document).split("#/definitions/")[1:]}
    assert wanted <= set(document["definitions"])
    assert "io.k8s.api.core.v1.Pod" in document["definitions"]
