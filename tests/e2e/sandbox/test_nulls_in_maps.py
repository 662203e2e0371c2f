"""Null values in maps of strings, such as `labels: {"sakkara.group":}`, for each kind of write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandbox.objects import Obj
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import request

pytestmark = pytest.mark.e2e
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
NULLS = {"labels": {"a": None, "b": "x"}, "annotations": {"k": None}}
EMPTY = {"labels": {"a": "", "b": "x"}, "annotations": {"k": ""}}


def config_map(name: str, data: Obj) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **NULLS}, "data": data}


def quota(name: str, spec: Obj) -> Obj:
    version, kind = "scheduling.x-k8s.io/v1alpha1", "ElasticQuota"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **NULLS}, "spec": spec}


class Place:
    """A namespace to write into."""

    def __init__(self, cluster: Cluster) -> None:
        namespace = cluster.namespace()
        self.cluster = cluster
        self.maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.native = f"/api/v1/namespaces/{namespace}/resourcequotas"
        self.quotas = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas"
        self.deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def create(self, path: str, body: Obj) -> Obj:
        found: Obj = self.cluster.request("POST", path, body)
        return found

    def patch(self, path: str, body: Any, content: str) -> Obj:
        raw, headers = json.dumps(body).encode(), [("Content-Type", content)]
        found: Obj = request(self.cluster.server, "PATCH", path, raw, headers=headers)
        return found


@pytest.fixture
def place(cluster: Cluster) -> Place:
    return Place(cluster)


def told(obj: Obj) -> Obj:
    """Labels, annotations and data; what is empty is left out."""
    meta = obj["metadata"]
    parts = {"labels": meta.get("labels"), "annotations": meta.get("annotations"), "data": obj.get("data")}
    return {name: part for name, part in parts.items() if part}


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_creating_takes_them_as_empty(place: Place, validation: str) -> None:
    made = place.create(f"{place.maps}?fieldValidation={validation}", config_map("c", {"d": None}))
    assert told(made) == {**EMPTY, "data": {"d": ""}}


def test_updating_takes_them_as_empty(place: Place) -> None:
    place.create(place.maps, config_map("c", {"d": "1"}))
    body = config_map("c", {"d": None, "e": "1"})
    assert told(place.cluster.request("PUT", f"{place.maps}/c", body))["data"] == {"d": "", "e": "1"}


@pytest.mark.smoke
@pytest.mark.parametrize("content", [MERGE, STRATEGIC])
def test_merge_patches_remove_and_do_not_add(place: Place, content: str) -> None:
    place.create(place.maps, config_map("c", {"d": "1", "e": "2"}))
    gone = {"metadata": {"labels": {"a": None, "new": None}}, "data": {"d": None, "new": None}}
    assert told(place.patch(f"{place.maps}/c", gone, content)) == {
        "labels": {"b": "x"},
        "annotations": {"k": ""},
        "data": {"e": "2"},
    }
    place.create(place.maps, {"metadata": {"name": "bare"}})
    assert told(place.patch(f"{place.maps}/bare", gone, content)) == {}


def test_a_strategic_replacement_keeps_them(place: Place) -> None:
    place.create(place.maps, config_map("c", {"d": "1"}))
    swap = {"metadata": {"labels": {"$patch": "replace", "u": None, "v": "1"}}}
    assert told(place.patch(f"{place.maps}/c", swap, STRATEGIC))["labels"] == {"u": "", "v": "1"}


def test_json_patches_add_them_as_empty(place: Place) -> None:
    place.create(place.maps, {"metadata": {"name": "c", "labels": {"b": "x"}}})
    add = [
        {"op": "add", "path": "/metadata/labels/a", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {"k": None}},
        {"op": "add", "path": "/data", "value": {"d": None}},
    ]
    assert told(place.patch(f"{place.maps}/c", add, JSON)) == {**EMPTY, "data": {"d": ""}}


def test_server_side_apply_takes_them_as_empty_and_owns_them(place: Place) -> None:
    path = f"{place.maps}/c?fieldManager=m"
    assert told(place.patch(path, config_map("c", {"d": None}), APPLY)) == {**EMPTY, "data": {"d": ""}}
    again = place.patch(path, config_map("c", {"d": None, "e": "2"}), APPLY)
    assert told(again) == {**EMPTY, "data": {"d": "", "e": "2"}}
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert told(place.patch(path, bare, APPLY)) == {}


def test_pods_and_templates_take_them_too(place: Place) -> None:
    limits = {"limits": {"cpu": None}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": limits}], "nodeSelector": {"disk": None}}
    made = place.create(place.pods, {"metadata": {"name": "p"}, "spec": spec})
    assert made["spec"]["nodeSelector"] == {"disk": ""}
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "0"}
    template = {"metadata": {"labels": {"a": None}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"a": None}}
    body = {"metadata": {"name": "d"}, "spec": {"selector": selector, "template": template}}
    found = place.create(place.deployments, body)["spec"]
    assert found["selector"]["matchLabels"] == found["template"]["metadata"]["labels"] == {"a": ""}
    hard = place.create(place.native, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": None}}})
    assert hard["spec"]["hard"] == {"cpu": "0"}


def test_custom_objects_take_them_in_metadata_and_drop_them_elsewhere(place: Place) -> None:
    spec = {"min": {"cpu": None, "memory": "1Gi"}, "max": None}
    made = place.create(place.quotas, quota("q", spec))
    assert told(made) == EMPTY
    assert made["spec"] == {"min": {"memory": "1Gi"}}
    assert told(place.patch(f"{place.quotas}/q2?fieldManager=m", quota("q2", {}), APPLY)) == EMPTY
    add = [{"op": "add", "path": "/metadata/labels/c", "value": None}]
    assert told(place.patch(f"{place.quotas}/q", add, JSON))["labels"] == {**EMPTY["labels"], "c": ""}
