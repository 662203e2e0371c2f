"""Objects in several versions, and objects that are older than their schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.api.lists import encode_version
from sandbox.errors import StatusError
from sandbox.kinds.builtin import AUTOSCALERS, AUTOSCALERS_V1
from sandbox.kinds.crd import kinds_of
from sandbox.store.conversion import kind_view, stored_form
from sandbox.store.object_store import Version
from sandbox.store.structural_schema import has_defaults, lacks_defaults


def cpu(percent: int) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": percent}}}


MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"averageUtilization": 9}}}


def scaler(version: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": "a", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": f"autoscaling/{version}", "kind": "X", "metadata": meta, "spec": spec}


def test_version_1_of_an_autoscaler_knows_the_target_of_cpu() -> None:
    stored = scaler("v2", metrics=[MEMORY, cpu(50)], minReplicas=1)
    current = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}
    stored["status"] = {"currentMetrics": [current]}
    shown = kind_view(AUTOSCALERS_V1, stored)
    assert shown["spec"] == {"minReplicas": 1, "targetCPUUtilizationPercentage": 50}
    assert shown["status"] == {"currentCPUUtilizationPercentage": 7}
    assert list(shown["metadata"]["annotations"]) == ["autoscaling.alpha.kubernetes.io/metrics"]
    assert kind_view(AUTOSCALERS, stored) is stored


def test_version_1_of_an_autoscaler_is_stored_in_version_2() -> None:
    stored = stored_form(AUTOSCALERS_V1, scaler("v1", targetCPUUtilizationPercentage=30))
    target = {"type": "Utilization", "averageUtilization": 30}
    assert stored["spec"] == {
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    }
    broken = scaler("v1", {"autoscaling.alpha.kubernetes.io/metrics": "{"})
    with pytest.raises(StatusError, match=r"metadata\.annotations"):
        stored_form(AUTOSCALERS_V1, broken)


METRICS = st.lists(st.sampled_from([MEMORY, {"type": "Pods"}, {"type": "External"}]), min_size=1, max_size=3)
SPECS = st.fixed_dictionaries(
    {"maxReplicas": st.just(3)},
    optional={"metrics": METRICS, "behavior": st.just({"scaleUp": {"policies": []}})},
)


@given(SPECS)
def test_a_client_of_version_1_loses_nothing(spec: dict[str, Any]) -> None:
    stored = scaler("v2", {"own": "text"}, **spec)
    assert stored_form(AUTOSCALERS_V1, kind_view(AUTOSCALERS_V1, stored)) == stored


def definition(**fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "e.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "things.e.com"}, "spec": spec}


def test_an_object_is_shown_with_defaults_that_are_younger_than_it() -> None:
    (plain,) = kinds_of(definition(a={"type": "string"}))
    (younger,) = kinds_of(definition(a={"type": "string", "default": "A"}))
    stored = {"apiVersion": "e.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}}
    assert kind_view(plain, stored) is stored
    assert kind_view(younger, stored)["spec"] == {"a": "A"}
    assert stored["spec"] == {}
    complete = kind_view(younger, stored)
    assert kind_view(younger, complete) is complete
    version = Version(stored, 1)
    bodies = [encode_version(kind, version) for kind in (plain, younger, plain)]
    assert [b'"a":"A"' in body for body in bodies] == [False, True, False]


STRING = {"type": "string", "default": "x"}
LACKING = [
    ({"a": STRING}, {}, True),
    ({"a": STRING}, {"a": "y"}, False),
    ({"a": STRING}, {"a": None}, False),
    ({"a": {"properties": {"b": STRING}}}, {}, False),
    ({"a": {"properties": {"b": STRING}}}, {"a": {}}, True),
    ({"a": {"items": {"properties": {"b": STRING}}}}, {"a": [{"b": "y"}, {}]}, True),
    ({"a": {"items": {"properties": {"b": STRING}}}}, {"a": [{"b": "y"}]}, False),
    ({"a": {"additionalProperties": {"properties": {"b": STRING}}}}, {"a": {"k": {}}}, True),
    ({"a": {"additionalProperties": True}}, {"a": {"k": {}}}, False),
    ({"a": {"additionalProperties": {"properties": {"b": STRING}}}}, {"a": "no object"}, False),
]


@pytest.mark.parametrize(("fields", "obj", "lacks"), LACKING)
def test_what_lacks_a_default(fields: dict[str, Any], obj: dict[str, Any], lacks: bool) -> None:
    schema = {"type": "object", "properties": fields}
    assert lacks_defaults(schema, obj) is lacks
    assert has_defaults(schema) is ("default" in str(schema))
