"""Requirements of Kubernetes' own API tests beyond `test_api_machinery`, on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.sandbox.test_api_machinery import CRDS, Place, place, thing_definition
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import request
from tests.support.eventually import eventually

__all__ = ["place"]
STRICT = "fieldValidation=Strict"
JSON_PATCH = "application/json-patch+json"


@pytest.mark.smoke
def test_a_strict_body_tells_what_is_wrong_in_its_own_order(place: Place) -> None:
    body = b'{"metadata":{"name":"c"},"foo":1,"data":{"x":"1","x":"2"},"bar":1}'
    error = place.refused("POST", f"{place.core}/configmaps?{STRICT}", body)
    assert error.body["message"].endswith(
        'strict decoding error: unknown field "foo", duplicate field "data.x", unknown field "bar"'
    )


def of_thing(place: Place, **parts: Any) -> dict[str, Any]:
    group = place.things.split("/")[2]
    return {"apiVersion": f"{group}/v1", "kind": "Thing", **parts}


def test_metadata_of_custom_objects_has_known_fields(place: Place) -> None:
    body = of_thing(place, metadata={"name": "t", "extra": 1}, spec={"a": 1})
    error = place.refused("POST", f"{place.things}?{STRICT}", body)
    assert (error.status, error.body["message"].partition("strict decoding error: ")[2]) == (
        400,
        'unknown field "metadata.extra"',
    )
    made = place.send("POST", f"{place.things}?fieldValidation=Ignore", body)
    assert "extra" not in made["metadata"]


def definition_path(place: Place) -> str:
    return f"{CRDS}/things.{place.things.split('/')[2]}"


def of_spec(place: Place, field: str, value: Any) -> bytes:
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
    return b'[{"op":"add","path":"%s/%s","value":%s}]' % (path.encode(), field.encode(), value)


def test_a_template_in_a_custom_object_has_metadata_like_others(place: Place) -> None:
    embedded = (
        b'{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}'
    )
    place.send("PATCH", definition_path(place), of_spec(place, "template", embedded), JSON_PATCH)
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "extra": 1}, "own": {"kept": True}}

    def made() -> dict[str, Any] | None:
        body = of_thing(place, metadata={"generateName": "t-"}, spec={"template": inner})
        found: dict[str, Any] = place.send("POST", f"{place.things}?fieldValidation=Ignore", body)
        return found["spec"].get("template")

    template = eventually(made, timeout=90)
    assert template == {**inner, "metadata": {"name": "p"}}
    body = of_thing(place, metadata={"name": "t"}, spec={"template": inner})
    error = place.refused("POST", f"{place.things}?{STRICT}", body)
    assert error.body["message"].endswith('unknown field "spec.template.metadata.extra"')


@pytest.mark.smoke
def test_defaults_reach_objects_that_are_older(place: Place) -> None:
    place.send("POST", place.things, of_thing(place, metadata={"name": "old"}, spec={}))
    before = request(place.cluster.server, "GET", f"{place.things}/old")
    place.send(
        "PATCH", definition_path(place), of_spec(place, "a", b'{"type":"integer","default":7}'), JSON_PATCH
    )
    shown = eventually(
        lambda: (
            (found := request(place.cluster.server, "GET", f"{place.things}/old"))["spec"].get("a") and found
        ),
        timeout=90,
    )
    assert shown["spec"] == {"a": 7}
    assert shown["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert request(place.cluster.server, "GET", place.things)["items"][0]["spec"] == {"a": 7}
    place.send("PATCH", definition_path(place), of_spec(place, "a", b'{"type":"integer"}'), JSON_PATCH)
    eventually(lambda: not request(place.cluster.server, "GET", f"{place.things}/old")["spec"], timeout=90)


def test_definitions_of_openapi_v2_come_and_go(cluster: Cluster) -> None:
    group = f"{cluster.namespace()}.example.com"
    name = ".".join([*reversed(group.split(".")), "v1", "Thing"])
    spec = {
        "size": {"type": "integer", "description": "How large."},
        "maybe": {"type": "string", "nullable": True},
    }
    cluster.request("POST", CRDS, thing_definition(group, spec))

    def published() -> Any:
        return request(cluster.server, "GET", "/openapi/v2", timeout=30)["definitions"].get(name)

    found = eventually(published, timeout=60)
    assert found["properties"]["spec"]["properties"]["size"] == spec["size"]
    assert "nullable" not in found["properties"]["spec"]["properties"]["maybe"]
    assert found["x-kubernetes-group-version-kind"] == [{"group": group, "kind": "Thing", "version": "v1"}]
    cluster.request("DELETE", f"{CRDS}/things.{group}")
    eventually(lambda: published() is None, timeout=60)


def test_autoscalers_have_two_versions(cluster: Cluster) -> None:
    home = f"namespaces/{cluster.namespace()}/horizontalpodautoscalers"
    first, second = f"/apis/autoscaling/v1/{home}", f"/apis/autoscaling/v2/{home}"
    target = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "maxReplicas": 3,
    }
    spec = {**target, "targetCPUUtilizationPercentage": 60}
    cluster.request("POST", first, {"metadata": {"name": "one"}, "spec": spec})
    shown = request(cluster.server, "GET", f"{second}/one")
    goal = {"type": "Utilization", "averageUtilization": 60}
    assert shown["apiVersion"] == "autoscaling/v2"
    assert shown["spec"] == {
        **target,
        "minReplicas": 1,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": goal}}],
    }
    memory = {"type": "Resource", "resource": {"name": "memory", "target": goal}}
    cluster.request("POST", second, {"metadata": {"name": "two"}, "spec": {**target, "metrics": [memory]}})
    old = request(cluster.server, "GET", f"{first}/two")
    assert old["spec"] == {**target, "minReplicas": 1}
    old["spec"]["maxReplicas"] = 5
    cluster.request("PUT", f"{first}/two", old)
    new = request(cluster.server, "GET", f"{second}/two")
    assert (new["spec"]["maxReplicas"], new["spec"]["metrics"]) == (5, [memory])
    assert not new["metadata"].get("annotations")


def test_mutating_policies_are_kept_with_their_defaults(cluster: Cluster) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["deployments"],
    }
    expression = "Object{spec: Object.spec{replicas: 1}}"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        "reinvocationPolicy": "Never",
    }
    name = f"{cluster.namespace()}.example.com"
    made = cluster.request("POST", path, {"metadata": {"name": name}, "spec": spec})
    cluster.request("DELETE", f"{path}/{name}")
    assert made["spec"] == {
        **spec,
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [{**rule, "scope": "*"}],
        },
    }
