"""Admission messages equal to those of a real kube-apiserver; `--server both` compares the two."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.webhooks.review_server import ReviewServer, deny, patch, slow

pytestmark = [pytest.mark.e2e, pytest.mark.long]
GROUP = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReviewServer]:
    with ReviewServer(tmp_path_factory.mktemp("webhook")) as running:
        yield running


class Place:
    """A namespace with a service account, on either server."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace("parity")
        self.path = f"/api/v1/namespaces/{self.namespace}"
        # A bare API server has nobody to make it; where it exists, an update leaves it as it is.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        cluster.kubectl("-n", self.namespace, "apply", "-f", "-", input=json.dumps(account))

    def create(self, plural: str, name: str, query: str = "", **body: Any) -> dict[str, Any]:
        """POST an object of the core group."""
        made = {"metadata": {"name": name}, **body}
        return dict(self.cluster.request("POST", f"{self.path}/{plural}{query}", made))

    def tried(self, plural: str, name: str, **body: Any) -> dict[str, Any]:
        """What a POST would store: a trial can be repeated until the server knows its quotas and ranges.

        A kube-apiserver learns of them by a watch; until then it lets everything pass.
        """
        return self.create(plural, name, "?dryRun=All", **body)

    def refused(self, plural: str, name: str, **body: Any) -> RequestFailed:
        """The error of a trial that must fail."""
        with pytest.raises(RequestFailed) as refusal:
            self.tried(plural, name, **body)
        return refusal.value

    def pod(self, *resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
        """A pod body with one container per argument, named a, b, ..."""
        containers = [
            {"name": name, "image": "i", "resources": part}
            for name, part in zip("abc", resources or ({},), strict=False)
        ]
        return {"spec": {"containers": containers, **spec}}

    def quota(self, name: str = "q", **hard: str) -> None:
        """A ResourceQuota that counts from nothing; a bare API server has nobody to write its status."""
        hard = {key.replace("_", ".", 1): value for key, value in hard.items()}
        self.create("resourcequotas", name, spec={"hard": hard})
        zero = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
        self.cluster.request("PATCH", f"{self.path}/resourcequotas/{name}/status", zero)


@pytest.fixture
def place(cluster: Cluster) -> Place:
    return Place(cluster)


def requests(**amounts: str) -> dict[str, Any]:
    return {"requests": amounts}


QUOTAS: list[tuple[str, dict[str, str], list[dict[str, Any]], str]] = [
    (
        "one resource over",
        {"requests_cpu": "1", "pods": "9"},
        [requests(cpu="1500m")],
        "exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=0, limited: requests.cpu=1",
    ),
    (
        "two resources over, sorted",
        {"requests_cpu": "1", "requests_memory": "1Gi"},
        [requests(cpu="2", memory="2Gi")],
        "exceeded quota: q, requested: requests.cpu=2,requests.memory=2Gi, "
        "used: requests.cpu=0,requests.memory=0, limited: requests.cpu=1,requests.memory=1Gi",
    ),
    (
        "values missing in one of two containers",
        {"cpu": "5", "memory": "5Gi"},
        [requests(cpu="1", memory="1Gi"), requests(cpu="1")],
        "failed quota: q: must specify memory for: b",
    ),
    (
        "values missing everywhere",
        {"limits_cpu": "5", "limits_memory": "5Gi"},
        [{}, {}],
        "failed quota: q: must specify limits.cpu for: a,b; limits.memory for: a,b",
    ),
    (
        "an extended resource",
        {"requests_nvidia.com/gpu": "1"},
        [{"limits": {"nvidia.com/gpu": "2"}}],
        "exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=0, "
        "limited: requests.nvidia.com/gpu=1",
    ),
    (
        "the number of pods",
        {"pods": "0"},
        [{}],
        "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
    ),
    (
        "the number of objects",
        {"count/pods": "0"},
        [{}],
        "exceeded quota: q, requested: count/pods=1, used: count/pods=0, limited: count/pods=0",
    ),
]


@pytest.mark.parametrize(("sentence", "hard", "resources", "message"), QUOTAS, ids=[row[0] for row in QUOTAS])
def test_quota_refusals(
    place: Place, sentence: str, hard: dict[str, str], resources: list[dict[str, Any]], message: str
) -> None:
    place.quota(**hard)

    def decided() -> RequestFailed:
        error = place.refused("pods", "p", **place.pod(*resources))
        assert "status unknown" not in str(error)
        return error

    error = eventually(decided)
    assert (error.status, error.body["reason"]) == (403, "Forbidden"), sentence
    assert error.body["message"] == f'pods "p" is forbidden: {message}'


LIMITS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "over the maximum, request given",
        {"max": {"cpu": "1"}},
        {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
        "maximum cpu usage per Container is 1, but limit is 2",
    ),
    (
        "under the minimum",
        {"min": {"cpu": "100m"}},
        requests(cpu="50m"),
        "minimum cpu usage per Container is 100m, but request is 50m",
    ),
    (
        "over the ratio",
        {"maxLimitRequestRatio": {"cpu": "2"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
        "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
    ),
    (
        "two bounds at once",
        {"max": {"cpu": "1", "memory": "1Gi"}},
        {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
        "[maximum cpu usage per Container is 1, but limit is 2, "
        "maximum memory usage per Container is 1Gi, but limit is 2Gi]",
    ),
]


@pytest.mark.parametrize(("sentence", "item", "resources", "message"), LIMITS, ids=[row[0] for row in LIMITS])
def test_limit_range_refusals(
    place: Place, sentence: str, item: dict[str, Any], resources: dict[str, Any], message: str
) -> None:
    place.create("limitranges", "l", spec={"limits": [{"type": "Container", **item}]})
    error = eventually(lambda: place.refused("pods", "p", **place.pod(resources)))
    assert error.status == 403, sentence
    said = error.body["message"].removeprefix('pods "p" is forbidden: ')
    # LimitRanger walks over a Go map: one time in eight it names the second bound first.
    assert any_order(said) == any_order(message)


def any_order(message: str) -> list[str]:
    """The sentences of an aggregated error, sorted."""
    return sorted(re.split(", (?=m)", message.removeprefix("[").removesuffix("]")))


def test_limit_range_defaults(place: Place) -> None:
    item = {
        "type": "Container",
        "default": {"cpu": "2"},
        "defaultRequest": {"cpu": "500m"},
        "max": {"memory": "1Gi"},
        "min": {"ephemeral-storage": "1Gi"},
    }
    place.create("limitranges", "l", spec={"limits": [item]})
    own = requests(**{"ephemeral-storage": "2Gi"})
    filled = {
        "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }

    def decided() -> dict[str, Any]:
        made = place.tried("pods", "p", **place.pod(own))
        assert made["spec"]["containers"][0]["resources"] == filled
        return made

    assert eventually(decided)["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a"
    )


PRIORITIES: list[tuple[str, dict[str, Any], str]] = [
    ("an unknown class", {"priorityClassName": "none"}, "no PriorityClass with name none was found"),
    (
        "a priority of one's own",
        {"priority": 5},
        "the integer value of priority (5) must not be provided in pod spec; "
        "priority admission controller computed 0 from the given PriorityClass name",
    ),
]


@pytest.mark.parametrize(("sentence", "spec", "message"), PRIORITIES, ids=[row[0] for row in PRIORITIES])
def test_priority_refusals(place: Place, sentence: str, spec: dict[str, Any], message: str) -> None:
    error = place.refused("pods", "p", **place.pod(**spec))
    assert (error.status, error.body["message"]) == (403, f'pods "p" is forbidden: {message}'), sentence


def register(place: Place, hooks: ReviewServer, kind: str, **entry: Any) -> None:
    """One webhook for the namespace's config maps at /w."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    webhook = {
        "name": "w.example.com",
        "clientConfig": {"url": hooks.url("/w"), "caBundle": hooks.bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}},
        **entry,
    }
    place.cluster.request(
        "POST",
        f"{GROUP}/{kind}webhookconfigurations",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind.title()}WebhookConfiguration",
            "metadata": {"name": place.namespace},
            "webhooks": [webhook],
        },
    )


def attempts(place: Place) -> RequestFailed:
    """The first refusal: a real server learns of a configuration a moment after it is stored."""
    number = 0

    def attempt() -> RequestFailed | None:
        nonlocal number
        number += 1
        try:
            place.create("configmaps", f"c{number}", data={"k": "v"})
        except RequestFailed as error:
            return error
        return None

    found = eventually(attempt)
    assert found is not None
    return found


DENIALS: list[tuple[str, Any, int, str, str]] = [
    (
        "with a message only",
        deny("no"),
        400,
        "",
        'admission webhook "w.example.com" denied the request: no',
    ),
    (
        "with code and reason",
        deny("no", code=403, reason="Forbidden"),
        403,
        "Forbidden",
        'admission webhook "w.example.com" denied the request: no',
    ),
    (
        "without a word",
        lambda request: {"allowed": False},
        400,
        "",
        'admission webhook "w.example.com" denied the request without explanation',
    ),
    (
        "a patch without type",
        lambda request: {"allowed": True, "patch": "W10="},
        500,
        "InternalError",
        'Internal error occurred: failed calling webhook "w.example.com": received invalid webhook response: '
        "webhook returned response.patch but not response.patchType",
    ),
    (
        "another uid",
        lambda request: {"allowed": True, "uid": "x"},
        500,
        "InternalError",
        'Internal error occurred: failed calling webhook "w.example.com": received invalid webhook response: '
        'expected response.uid="UID", got "x"',
    ),
]


@pytest.mark.parametrize(
    ("sentence", "answer", "code", "reason", "message"), DENIALS, ids=[r[0] for r in DENIALS]
)
def test_webhook_refusals(
    place: Place, hooks: ReviewServer, sentence: str, answer: Any, code: int, reason: str, message: str
) -> None:
    hooks.forget()
    hooks.answers["/w"] = answer
    register(place, hooks, "mutating")
    error = attempts(place)
    uid = hooks.seen["/w"][-1]["uid"]
    assert (error.status, error.body.get("reason", "")) == (code, reason), sentence
    assert error.body["message"] == message.replace("UID", uid)


FAILED = 'Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: '
FAILURES: list[tuple[str, Any, str]] = [
    ("a server error", lambda request: b"", 'an error on the server ("unknown") has prevented the request'),
    (
        "another version of the review",
        lambda request: b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}',
        'Internal error occurred: failed calling webhook "w.example.com": ',
    ),
    ("too slow", slow(2), "context deadline exceeded"),
    (
        "a patch for a place that is not there",
        patch({"op": "add", "path": "/spec/x/y", "value": 1}),
        "Internal error occurred: ",
    ),
]


@pytest.mark.parametrize(("sentence", "answer", "part"), FAILURES, ids=[row[0] for row in FAILURES])
def test_webhook_failures(place: Place, hooks: ReviewServer, sentence: str, answer: Any, part: str) -> None:
    hooks.forget()
    hooks.answers["/w"] = answer
    register(place, hooks, "mutating", timeoutSeconds=1 if sentence == "too slow" else 10)
    error = attempts(place)
    assert (error.status, error.body["reason"]) == (500, "InternalError"), sentence
    assert part in error.body["message"]


def test_a_dead_webhook(place: Place, hooks: ReviewServer) -> None:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port = link.getsockname()[1]
    client = {"url": f"https://127.0.0.1:{port}/w", "caBundle": hooks.bundle}
    register(place, hooks, "validating", clientConfig=client, timeoutSeconds=5)
    assert attempts(place).body["message"] == (
        f'{FAILED}Post "https://127.0.0.1:{port}/w?timeout=5s": dial tcp 127.0.0.1:{port}: connect: '
        "connection refused"
    )


SCOPED: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("best effort", {"scopes": ["BestEffort"]}, {}, {"limits": {"cpu": "1"}}),
    ("not best effort", {"scopes": ["NotBestEffort"]}, {"limits": {"memory": "1"}}, {}),
]


@pytest.mark.parametrize(("sentence", "scope", "inside", "outside"), SCOPED, ids=[row[0] for row in SCOPED])
def test_scopes(
    place: Place, sentence: str, scope: dict[str, Any], inside: dict[str, Any], outside: dict[str, Any]
) -> None:
    place.create("resourcequotas", "q", spec={"hard": {"pods": "0"}, **scope})
    zero = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    place.cluster.request("PATCH", f"{place.path}/resourcequotas/q/status", zero)

    def refused() -> bool:
        error = place.refused("pods", "in", **place.pod(inside))
        assert "exceeded quota: q, requested: pods=1" in str(error), sentence
        return True

    assert eventually(refused)
    assert place.create("pods", "out", **place.pod(outside))["metadata"]["name"] == "out"


def test_an_undecidable_condition(place: Place, hooks: ReviewServer) -> None:
    condition = {"name": "c", "expression": "object.data.missing == 'x'"}
    register(place, hooks, "validating", matchConditions=[condition])
    error = attempts(place)
    assert error.status == 403
    assert error.body["message"].endswith(
        "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    )


def test_a_review_has_the_same_fields(place: Place, hooks: ReviewServer) -> None:
    hooks.forget()
    hooks.answers["/w"] = patch({"op": "add", "path": "/data/new", "value": "x"})
    register(place, hooks, "mutating")

    def seen() -> dict[str, Any] | None:
        place.cluster.kubectl("-n", place.namespace, "delete", "configmap", "c", "--ignore-not-found")
        made = place.create("configmaps", "c", data={"k": "v"})
        return hooks.seen["/w"][-1] if made["data"].get("new") == "x" else None

    request = eventually(seen)
    assert request is not None
    assert set(request) == {
        "uid",
        "kind",
        "resource",
        "requestKind",
        "requestResource",
        "name",
        "namespace",
        "operation",
        "userInfo",
        "object",
        "oldObject",
        "dryRun",
        "options",
    }
    assert request["options"]["kind"] == "CreateOptions"
    assert (request["object"]["kind"], request["object"]["apiVersion"]) == ("ConfigMap", "v1")
