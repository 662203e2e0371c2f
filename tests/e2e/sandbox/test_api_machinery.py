"""API machinery that clients of kube-apiserver depend on beyond create and read, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.server import NEWEST, RequestFailed, request
from tests.support.eventually import eventually
from tests.support.http2.encoder import encoded

pytestmark = pytest.mark.long

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CONTAINERS = [{"name": "c", "image": "i"}]


def thing_definition(group: str, spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version],
        },
    }


@dataclass
class Place:
    """A namespace, and a kind `Thing` of its own."""

    cluster: Cluster
    namespace: str
    things: str

    @property
    def newest(self) -> bool:
        """Whether the server is of a newer release than the one that the sandbox follows."""
        return self.cluster.kind == NEWEST

    @property
    def core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def send(
        self, method: str, path: str, body: bytes | dict[str, Any], content: str = "application/json"
    ) -> Any:
        return request(self.cluster.server, method, path, body, headers=[("Content-Type", content)])

    def refused(self, *args: Any) -> RequestFailed:
        with pytest.raises(RequestFailed) as error:
            self.send(*args)
        return error.value


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    namespace = cluster.namespace()
    group = f"{namespace}.example.com"
    properties = {
        "a": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    cluster.request("POST", CRDS, thing_definition(group, properties))
    await_established(cluster.server)
    yield Place(cluster, namespace, f"/apis/{group}/v1/namespaces/{namespace}/things")
    cluster.request("DELETE", f"{CRDS}/things.{group}")


# Protobuf


def test_a_definition_may_come_as_protobuf(cluster: Cluster) -> None:
    group = f"{cluster.namespace()}.example.com"
    rules = {"rule": "self.size <= self.limit", "message": "too large", "fieldPath": ".size"}
    spec = {
        "size": {"type": "integer", "minimum": 0, "maximum": 10.0, "default": 3, "format": "int32"},
        "limit": {"type": "number", "maximum": 9.5, "default": 5},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red", "maxLength": 4},
        "open": {"type": "object", "additionalProperties": True},
        "map": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^x"}},
        "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "any": {"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    }
    body = thing_definition(group, spec)
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] |= {"x-kubernetes-validations": [rules], "required": ["size"]}
    made = request(cluster.server, "POST", CRDS, encoded(body), headers=[("Content-Type", PROTOBUF)])
    found = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert found == schema
    assert made["spec"]["names"] == body["spec"]["names"]
    cluster.request("DELETE", f"{CRDS}/things.{group}")


# Fields that come twice

TWICE = (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","labels":{"a":"b","a":"c"}},'
    b'"data":{"x":"1","x":"2"},"foo":1,"foo":{"b":1,"b":2}}'
)
DUPLICATES = ['duplicate field "metadata.labels.a"', 'duplicate field "data.x"']
YAML = b"""apiVersion: v1
kind: ConfigMap
metadata:
  name: NAME
data:
  x: '1'
  x: '2'
"""


def test_a_strict_json_body_names_no_field_twice(place: Place) -> None:
    error = place.refused("POST", f"{place.core}/configmaps?fieldValidation=Strict", TWICE)
    start = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert error.status == 400
    assert error.body["message"] == start + ", ".join([*DUPLICATES, 'unknown field "foo"'])


def test_without_validation_the_last_one_counts(place: Place) -> None:
    made = place.send("POST", f"{place.core}/configmaps?fieldValidation=Ignore", TWICE.replace(b"NAME", b"m"))
    assert (made["data"], made["metadata"]["labels"]) == ({"x": "2"}, {"a": "c"})


def test_kubectl_shows_duplicates_as_warnings(place: Place) -> None:
    text = TWICE.replace(b"NAME", b"m").decode()
    done = place.cluster.kubectl(
        "create", "--raw", f"{place.core}/configmaps?fieldValidation=Warn", "-f", "-", input=text
    )
    for words in [*DUPLICATES, 'unknown field "foo"']:
        assert f"Warning: {words}" in done.stderr


def test_nested_fields_are_named_by_their_path(place: Place) -> None:
    body = (
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"i",'
        b'"image":"j"},{"name":"b","image":"i","ports":[{"containerPort":1,"containerPort":2}]}]}}'
    )
    error = place.refused("POST", f"{place.core}/pods?fieldValidation=Strict", body)
    assert error.body["message"].endswith(
        'strict decoding error: duplicate field "spec.containers[0].image", '
        'duplicate field "spec.containers[1].ports[0].containerPort"'
    )


def test_a_strict_yaml_body_names_the_line(place: Place) -> None:
    path = f"{place.core}/configmaps?fieldValidation=Strict"
    error = place.refused("POST", path, YAML, "application/yaml")
    assert error.status == 400
    assert error.body["message"].endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 7: key "x" already set in map'
    )


@pytest.mark.parametrize("body", [YAML, b'{"apiVersion":"v1","kind":"ConfigMap","data":{"x":"1","x":"2"}}'])
def test_a_strict_apply_names_the_line(place: Place, body: bytes) -> None:
    path = f"{place.core}/configmaps/NAME?fieldManager=m&fieldValidation=Strict"
    error = place.refused("PATCH", path, body, "application/apply-patch+yaml")
    line = 7 if body is YAML else 1
    what = "patch" if place.newest else "YAML"
    assert (error.status, error.body["message"]) == (
        400,
        f"error strict decoding {what}: error converting YAML to JSON: yaml: unmarshal errors:\n"
        f'  line {line}: key "x" already set in map',
    )


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
def test_an_applied_field_must_be_in_the_schema(place: Place, mode: str) -> None:
    body = YAML.replace(b"NAME", b"own") + b"foo: 1\n"
    path = f"{place.core}/configmaps/own?fieldManager=m&fieldValidation={mode}"
    error = place.refused("PATCH", path, body.replace(b"  x: '2'\n", b""), "application/apply-patch+yaml")
    assert error.status == 500
    assert error.body["message"].endswith("/v1, Kind=ConfigMap): .foo: field not declared in schema")


MERGED = b'{"data":{"x":"1","x":"2"},"foo":1,"foo":2}'
PATCHES = [
    (
        "merge",
        b'{"data":{"x":"1","x":"2"},"foo":1,"foo":2}',
        'duplicate field "data.x", duplicate field "foo"',
    ),
    (
        "strategic-merge",
        b'{"data":{"x":"1","x":"2"},"foo":1,"foo":2}',
        'duplicate field "data.x", duplicate field "foo"',
    ),
    (
        "json",
        b'[{"op":"add","path":"/data","value":{"x":"1","x":"2"},"value":{"x":"3"}},'
        b'{"op":"add","path":"/foo","value":1}]',
        'json patch duplicate field "[0].value.x", json patch duplicate field "[0].value"',
    ),
]


@pytest.mark.parametrize(("kind", "body", "found"), PATCHES, ids=[case[0] for case in PATCHES])
def test_a_strict_patch_names_no_field_twice(place: Place, kind: str, body: bytes, found: str) -> None:
    place.send("POST", f"{place.core}/configmaps", YAML.replace(b"NAME", b"m"), "application/yaml")
    path = f"{place.core}/configmaps/m?fieldValidation=Strict"
    content = f"application/{kind}-patch+json"
    error = place.refused("PATCH", path, body, content)
    assert (error.status, error.body["reason"]) == (422, "Invalid")
    assert error.body["message"].startswith(' "" is invalid: patch: Invalid value: "')
    assert error.body["message"].endswith(f'strict decoding error: {found}, unknown field "foo"')
    kept = place.send("PATCH", path.replace("Strict", "Ignore"), body, content)
    assert kept["data"]["x"] in ("2", "3")


def test_custom_objects_are_read_as_strictly(place: Place) -> None:
    group_version = place.things.split("/")[2] + "/v1"
    body = (
        b'{"apiVersion":"%s","kind":"Thing","metadata":{"name":"t"},'
        b'"spec":{"a":1,"a":2,"foo":1,"foo":2,"l":[{"n":1},{"n":1,"n":2}]}}' % group_version.encode()
    )
    error = place.refused("POST", f"{place.things}?fieldValidation=Strict", body)
    assert error.status == 400
    assert error.body["message"].endswith(
        'strict decoding error: duplicate field "spec.a", duplicate field "spec.foo", '
        'duplicate field "spec.l[1].n", unknown field "spec.foo"'
    )
    made = place.send("POST", f"{place.things}?fieldValidation=Warn", body)
    assert made["spec"] == {"a": 2, "l": [{"n": 1}, {"n": 2}]}


# Versions of updates

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
VERSIONS = [
    ("0", 200, ""),
    ("", 200, ""),
    ("1", 409, MODIFIED),
    ("abc", 500, 'parsing "abc": invalid syntax'),
]


@pytest.mark.parametrize(("version", "status", "words"), VERSIONS, ids=[repr(case[0]) for case in VERSIONS])
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_update_may_leave_the_version_open(
    place: Place, method: str, version: str, status: int, words: str
) -> None:
    place.send("POST", f"{place.core}/configmaps", YAML.replace(b"NAME", b"m"), "application/yaml")
    body = {"metadata": {"name": "m", "resourceVersion": version}, "data": {"new": "1"}}
    content = "application/json" if method == "PUT" else "application/merge-patch+json"
    if status == 200:
        assert place.send(method, f"{place.core}/configmaps/m", body, content)["data"]["new"] == "1"
        return
    error = place.refused(method, f"{place.core}/configmaps/m", body, content)
    assert error.status == status
    assert error.body["message"].endswith(words)


@pytest.mark.parametrize("path", ["t", "t/status"])
@pytest.mark.parametrize("version", ["0", ""])
def test_custom_objects_need_the_version(place: Place, path: str, version: str) -> None:
    group_version = place.things.split("/")[2] + "/v1"
    body = {"apiVersion": group_version, "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": 1}}
    place.send("POST", place.things, body)
    body["metadata"] = {"name": "t", "resourceVersion": version}
    error = place.refused("PUT", f"{place.things}/{path}", body)
    assert (error.status, error.body["reason"]) == (422, "Invalid")
    words = "is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert error.body["message"].endswith(words)
    missing = {**body, "metadata": {"name": "x", "resourceVersion": version}}
    assert place.refused("PUT", f"{place.things}/x", missing).status == 404


def test_a_lease_needs_the_version(place: Place) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases"
    place.send("POST", path, {"metadata": {"name": "l"}})
    error = place.refused("PUT", f"{path}/l", {"metadata": {"name": "l", "resourceVersion": "0"}})
    assert error.status == 422
    assert error.body["message"] == (
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


def test_a_new_object_has_no_version(place: Place) -> None:
    body = {"metadata": {"name": "m", "resourceVersion": "7"}}
    error = place.refused("POST", f"{place.core}/configmaps", body)
    assert (error.status, error.body["message"]) == (
        500,
        "resourceVersion should not be set on objects to be created",
    )
    body["metadata"]["resourceVersion"] = "0"
    assert place.send("POST", f"{place.core}/configmaps", body)["metadata"]["resourceVersion"] != "0"


# Kinds


def test_discovery_says_how_objects_are_stored(place: Place) -> None:
    stored = {
        "/api/v1": {"pods": "xPOwRZ+Yhw8=", "podtemplates": "LIXB2x4IFpk=", "events": "r2yiGXH7wu8="},
        "/apis/events.k8s.io/v1": {"events": "r2yiGXH7wu8="},
        "/apis/apiextensions.k8s.io/v1": {"customresourcedefinitions": "jfWCUB31mvA="},
        "/apis/authorization.k8s.io/v1": {"subjectaccessreviews": None},
    }
    for path, wanted in stored.items():
        listed = place.cluster.request("GET", path)["resources"]
        hashes = {item["name"]: item.get("storageVersionHash") for item in listed}
        assert {name: hashes[name] for name in wanted} == wanted
        assert not any(value for name, value in hashes.items() if "/" in name)
    own = place.cluster.request("GET", "/".join(place.things.split("/")[:4]))["resources"]
    assert len(own[0]["storageVersionHash"]) == 12


def test_the_api_server_is_a_service(place: Place) -> None:
    service = place.cluster.request("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["protocol"]) == ("https", 443, "TCP")
    assert place.cluster.url.endswith(f":{port['targetPort']}")
    assert service["spec"]["clusterIP"].endswith(".1")


def test_a_replication_controller_takes_labels_from_its_template(place: Place) -> None:
    path = f"{place.core}/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
    made = place.send(
        "POST", path, {"metadata": {"name": "rc"}, "spec": {"replicas": 0, "template": template}}
    )
    assert (made["spec"]["selector"], made["metadata"]["labels"]) == ({"a": "b"}, {"a": "b"})
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert place.cluster.request("GET", f"{path}/rc/scale")["status"]["selector"] == "a=b"


CONTROLLERS = [
    ("nothing", {}, "[spec.selector: Required value, spec.template: Required value]"),
    ("no labels", {"template": {"spec": {"containers": CONTAINERS}}}, "spec.selector: Required value"),
    (
        "a selector of others",
        {
            "selector": {"x": "y"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}},
        },
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: '
        "`selector` does not match template `labels`",
    ),
]


@pytest.mark.parametrize(("sentence", "spec", "words"), CONTROLLERS, ids=[case[0] for case in CONTROLLERS])
def test_a_replication_controller_selects_its_own_pods(
    place: Place, sentence: str, spec: dict[str, Any], words: str
) -> None:
    body = {"metadata": {"name": "rc"}, "spec": spec}
    error = place.refused("POST", f"{place.core}/replicationcontrollers", body)
    assert error.body["message"] == f'ReplicationController "rc" is invalid: {words}', sentence


def test_pod_templates_are_defaulted_and_checked(place: Place) -> None:
    path = f"{place.core}/podtemplates"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
    made = place.send("POST", path, {"metadata": {"name": "t"}, "template": template})
    assert (made["metadata"]["generation"], made["template"]["spec"]["dnsPolicy"]) == (1, "ClusterFirst")
    error = place.refused("POST", path, {"metadata": {"name": "u"}, "template": {"spec": {"containers": []}}})
    assert error.body["message"] == ('PodTemplate "u" is invalid: template.spec.containers: Required value')


# Runtime classes


@pytest.fixture
def runtime_class(place: Place) -> Iterator[str]:
    """A class with overhead, a node selector and a toleration."""
    body = {
        "metadata": {"name": place.namespace},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "1Gi"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
    }
    place.send("POST", RUNTIME_CLASSES, body)
    yield place.namespace
    place.cluster.request("DELETE", f"{RUNTIME_CLASSES}/{place.namespace}")


PODS: list[tuple[str, dict[str, Any], str]] = [
    ("takes what the class says", {"runtimeClassName": "OWN"}, ""),
    (
        "may say the same overhead",
        {"runtimeClassName": "OWN", "overhead": {"cpu": "0.25", "memory": "1024Mi"}},
        "",
    ),
    (
        "may not say another",
        {"runtimeClassName": "OWN", "overhead": {"cpu": "1"}},
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    ),
    (
        "has no overhead without a class",
        {"overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    (
        "names a class that exists",
        {"runtimeClassName": "none"},
        'pod rejected: RuntimeClass "none" not found',
    ),
    (
        "selects nodes of the class",
        {"runtimeClassName": "OWN", "nodeSelector": {"a": "c"}},
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
    ),
]


@pytest.mark.parametrize(("sentence", "spec", "words"), PODS, ids=[case[0] for case in PODS])
def test_a_pod_of_a_runtime_class(
    place: Place, runtime_class: str, sentence: str, spec: dict[str, Any], words: str
) -> None:
    own = {key: runtime_class if value == "OWN" else value for key, value in spec.items()}
    # A real server's admission learns of accounts and classes a moment later; it looks the latter up.
    body = {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS, **own}}
    if words:
        error = place.refused("POST", f"{place.core}/pods", body)
        assert (error.status, error.body["message"]) == (403, f'pods "p" is forbidden: {words}'), sentence
        return
    found = eventually(lambda: place.send("POST", f"{place.core}/pods", body))["spec"]
    assert found["overhead"] == {"cpu": "250m", "memory": "1Gi"}, sentence
    assert found["nodeSelector"] == {"a": "b"}
    assert {"key": "k", "operator": "Exists"} in found["tolerations"]


CLASSES = [
    ("no handler", {}, "handler: Required value"),
    ("no name for a handler", {"handler": "H_"}, "a lowercase RFC 1123 label must consist of"),
    (
        "less than nothing",
        {"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}}},
        'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
]


@pytest.mark.parametrize(("sentence", "body", "words"), CLASSES, ids=[case[0] for case in CLASSES])
def test_a_runtime_class_is_checked(place: Place, sentence: str, body: dict[str, Any], words: str) -> None:
    error = place.refused("POST", RUNTIME_CLASSES, {"metadata": {"name": place.namespace}, **body})
    assert error.status == 422, sentence
    assert words in error.body["message"]


def test_a_handler_stays(place: Place, runtime_class: str) -> None:
    path = f"{RUNTIME_CLASSES}/{runtime_class}"
    error = place.refused("PATCH", path, {"handler": "x"}, "application/merge-patch+json")
    shown = "null" if place.newest else '"x"'
    assert error.body["message"].endswith(f"handler: Invalid value: {shown}: field is immutable")
