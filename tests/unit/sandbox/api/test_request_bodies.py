"""Decoding of request bodies: protobuf, types of built-in fields, schemas of custom kinds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.api.protobuf import decode_protobuf, messages
from sandbox.api.request_bodies import decode_object
from sandbox.errors import StatusError
from sandbox.kinds import disruption
from sandbox.kinds.builtin import BUILTIN, POD_DISRUPTION_BUDGETS, PODS, REVIEWS
from sandbox.kinds.builtin_types import prune, type_of
from sandbox.store.object_store import ObjectStore
from sandbox.store.structural_schema import apply_schema, schema_causes
from tests.support.every import every_case
from tests.support.http2.encoder import encoded


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    header = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, header) + field(2, raw)


def test_a_message_becomes_the_object_that_json_would_give() -> None:
    meta = field(1, b"web") + field(2, b"") + field(11, field(1, b"app") + field(2, b"web"))
    quota = field(1, meta) + field(2, field(1, field(1, b"cpu") + field(2, field(1, b"500m"))))
    assert decode_protobuf(envelope("v1", "ResourceQuota", quota)) == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"hard": {"cpu": "500m"}},
    }


def test_a_zero_behind_a_pointer_is_a_value_and_others_are_not() -> None:
    spec = field(1, 0) + field(2, b"") + field(5, 0)
    found = decode_protobuf(envelope("apps/v1", "Deployment", field(2, spec)))
    assert found["spec"]["replicas"] == 0
    assert "minReadySeconds" not in found["spec"]


def test_inlined_messages_lie_in_their_parent() -> None:
    volume = field(1, b"v") + field(2, field(2, b""))
    found = decode_protobuf(envelope("v1", "Pod", field(2, field(1, volume))))
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_secret_bytes_become_base64() -> None:
    data = field(1, b"key") + field(2, b"\xff\x00")
    assert decode_protobuf(envelope("v1", "Secret", field(2, data)))["data"] == {"key": "/wA="}


SCHEMAS: list[tuple[str, dict[str, Any]]] = [
    ("one schema for all items", {"items": {"type": "string"}}),
    ("any other property", {"additionalProperties": True}),
    ("no other property", {"additionalProperties": False}),
    ("other properties of a kind", {"additionalProperties": {"type": "integer"}}),
    ("numbers", {"maximum": 3, "minimum": -1.5, "maxLength": 0}),
    ("values of any kind", {"default": {"a": [1, None]}, "enum": ["a", 1, True, None]}),
    ("flags", {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": False}),
    ("rules", {"x-kubernetes-validations": [{"rule": "true", "reason": "FieldValueInvalid"}]}),
    ("a long way down", {"properties": {"a": {"properties": {"b": {"allOf": [{"type": "object"}]}}}}}),
]


@pytest.mark.parametrize(("sentence", "schema"), SCHEMAS, ids=[case[0] for case in SCHEMAS])
def test_schemas_of_definitions_keep_their_forms(sentence: str, schema: dict[str, Any]) -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "versions": [version]},
    }
    found = decode_protobuf(encoded(definition))
    assert found["spec"]["versions"] == [version], sentence


def test_a_list_of_schemas_or_names() -> None:
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    fields = {key: int(number) for number, (key, _, _) in messages()[name].items()}
    kind = field(fields["type"], b"string")

    def long_field(number: int, value: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(value)) + value

    several = long_field(fields["items"], long_field(2, kind) + long_field(2, kind))
    entry = long_field(1, b"a") + long_field(2, long_field(2, b"b") + long_field(2, b"c"))
    needed = long_field(fields["dependencies"], entry)
    version = field(4, field(1, several + needed))
    body = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, field(7, version)))
    (found,) = decode_protobuf(body)["spec"]["versions"]
    schema = found["schema"]["openAPIV3Schema"]
    assert schema == {"items": [{"type": "string"}] * 2, "dependencies": {"a": ["b", "c"]}}


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(raw: bytes) -> None:
    for body in (raw, b"k8s\x00" + raw, envelope("v1", "Pod", raw)):
        with_error = None
        try:
            decode_protobuf(body)
        except StatusError as error:
            with_error = error
        assert with_error is None or with_error.code in (400, 415)


def test_an_unknown_media_type_is_named() -> None:
    with pytest.raises(StatusError, match="accepted media types include: application/json") as refused:
        decode_object(b"{}", "text/plain")
    assert refused.value.code == 415


def test_yaml_bodies_cannot_explode() -> None:
    assert decode_object(b"a: 2026-01-01\n1: x", "application/yaml") == {"a": "2026-01-01", "1": "x"}
    with pytest.raises(StatusError, match="aliases are not supported"):
        decode_object(b"a: &x [1]\nb: *x", "application/yaml")


@every_case("kind", [kind for kind in BUILTIN if kind not in REVIEWS], repr)
def test_every_built_in_kind_has_a_type(kind: Any) -> None:
    assert type_of(kind.api_version, kind.kind)


TYPE_ERRORS = [
    (
        "a number for a text",
        {"spec": {"nodeName": 1}},
        "cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string",
    ),
    (
        "a map for a list",
        {"spec": {"containers": {}}},
        "cannot unmarshal object into Go struct field PodSpec.spec.containers of type []Container",
    ),
    ("a text for a flag", {"spec": {"hostNetwork": "yes"}}, "PodSpec.spec.hostNetwork of type bool"),
    ("a flag for a number", {"spec": {"priority": True}}, "PodSpec.spec.priority of type int32"),
    (
        "no quantity",
        {"spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}},
        "quantities must match the regular expression",
    ),
]


@pytest.mark.parametrize(("sentence", "obj", "said"), TYPE_ERRORS, ids=[row[0] for row in TYPE_ERRORS])
def test_wrong_json_types_are_refused(sentence: str, obj: Any, said: str) -> None:
    with pytest.raises(StatusError) as refused:
        prune(PODS, obj)
    assert said in str(refused.value)


def test_unknown_fields_are_dropped_and_named() -> None:
    obj = {"spec": {"containers": [{"name": "a", "imagee": "x"}], "nodeName": None}, "extra": 1}
    assert sorted(prune(PODS, obj)) == ["extra", "spec.containers[0].imagee"]
    assert obj == {"spec": {"containers": [{"name": "a"}]}}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "name": {"type": "string", "pattern": "^x", "maxLength": 3},
                "amount": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "maybe": {"type": "string", "nullable": True},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "keyed": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {
                        "type": "object",
                        "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 7}},
                    },
                },
                "limit": {
                    "type": "integer",
                    "x-kubernetes-validations": [
                        {"rule": "self >= oldSelf", "message": "limit must not shrink"}
                    ],
                },
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.limit) || self.limit >= self.size", "message": "too low"}
            ],
        }
    },
}


def test_defaults_and_pruning_reach_every_level() -> None:
    obj: dict[str, Any] = {
        "metadata": {"name": "a", "any": 1},
        "spec": {"size": 1, "junk": 1, "free": {"x": {}}, "keyed": [{"k": "a", "z": 1}]},
    }
    assert sorted(apply_schema(SCHEMA, obj)) == ["metadata.any", "spec.junk", "spec.keyed[0].z"]
    assert obj["metadata"] == {"name": "a"}
    assert obj["spec"] == {"size": 1, "mode": "a", "free": {"x": {}}, "keyed": [{"k": "a", "v": 7}]}


def test_null_is_dropped_where_a_field_may_not_be_null() -> None:
    spec = {"size": None, "mode": None, "maybe": None, "map": {"a": None, "b": 1}, "free": {"x": None}}
    obj: dict[str, Any] = {"spec": {**spec, "keyed": [{"k": "a", "v": None}], "set": ["a", None]}}
    assert apply_schema(SCHEMA, obj) == []
    assert obj["spec"] == {
        "mode": "a",
        "maybe": None,
        "map": {"b": 1},
        "free": {"x": None},
        "keyed": [{"k": "a", "v": 7}],
        "set": ["a", None],
    }


BROKEN = [
    ("nothing wrong", {"size": 1, "amount": "50%", "maybe": None}, None),
    ("a number as int-or-string", {"size": 1, "amount": 5}, None),
    ("a missing field", {}, "spec.size: Required value"),
    (
        "a wrong type",
        {"size": "1"},
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
    ),
    (
        "too small",
        {"size": 0},
        "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
    ),
    (
        "too large",
        {"size": 10},
        "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9",
    ),
    (
        "not in the list",
        {"size": 1, "mode": "c"},
        'spec.mode: Unsupported value: "c": supported values: "a", "b"',
    ),
    (
        "no match",
        {"size": 1, "name": "y"},
        "spec.name: Invalid value: \"y\": spec.name in body should match '^x'",
    ),
    ("too long", {"size": 1, "name": "xxxx"}, "spec.name: Too long: may not be more than 3 bytes"),
    ("a wrong type in a map", {"size": 1, "map": {"a": "b"}}, 'spec.map.a: Invalid value: "string"'),
    (
        "too many entries",
        {"size": 1, "map": {"a": 1, "b": 1, "c": 1}},
        "spec.map: Too many: 3: must have at most 2 items",
    ),
    ("a duplicate in a set", {"size": 1, "set": ["a", "a"]}, 'spec.set[1]: Duplicate value: "a"'),
    (
        "a duplicate key",
        {"size": 1, "keyed": [{"k": "a"}, {"k": "a"}]},
        'spec.keyed[1]: Duplicate value: {"k":"a"}',
    ),
    ("null where it may not be", {"size": None}, 'spec.size in body must be of type integer: "null"'),
    ("a broken CEL rule", {"size": 5, "limit": 4}, "spec: Invalid value: too low"),
]


@pytest.mark.parametrize(("sentence", "spec", "said"), BROKEN, ids=[row[0] for row in BROKEN])
def test_schema_rules(sentence: str, spec: Any, said: str | None) -> None:
    texts = [str(cause) for cause in schema_causes(SCHEMA, {"spec": spec})]
    assert texts == [] if said is None else len(texts) == 1 and said in texts[0]


def test_rules_on_the_old_value_are_judged_on_updates() -> None:
    new, old = {"spec": {"size": 1, "limit": 3}}, {"spec": {"size": 1, "limit": 5}}
    assert schema_causes(SCHEMA, new) == []
    assert [str(c) for c in schema_causes(SCHEMA, new, old)] == [
        "spec.limit: Invalid value: 3: limit must not shrink"
    ]


def ready(name: str, **meta: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True"}]
    labels = {"app": "web"}
    return {
        "metadata": {"namespace": "a", "name": name, "labels": labels, **meta},
        "status": {"phase": "Running", "conditions": conditions},
    }


BUDGETS = [
    ("an amount that must stay", {"minAvailable": 2}, 1),
    ("a share that must stay, rounded up", {"minAvailable": "50%"}, 1),
    ("an amount that may go", {"maxUnavailable": 1}, 1),
    ("a share that may go", {"maxUnavailable": "67%"}, 3),
    ("everything must stay", {"minAvailable": "100%"}, 0),
]


@pytest.mark.parametrize(("sentence", "rule", "allowed"), BUDGETS, ids=[row[0] for row in BUDGETS])
def test_what_a_budget_allows(sentence: str, rule: Any, allowed: int) -> None:
    store = ObjectStore()
    for name in ("p1", "p2", "p3"):
        store.create(PODS, ready(name))
    spec = {"selector": {"matchLabels": {"app": "web"}}, **rule}
    budget = {"metadata": {"namespace": "a", "name": "b"}, "spec": spec}
    store.create(POD_DISRUPTION_BUDGETS, budget)
    status = disruption.status_of(store, budget)
    assert (status["currentHealthy"], status["expectedPods"]) == (3, 3)
    assert status["disruptionsAllowed"] == allowed
