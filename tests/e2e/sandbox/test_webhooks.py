"""Admission webhooks of the sandbox over real HTTPS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.full_sandbox import FullSandbox
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.webhooks.review_server import ReviewServer, allow, deny, patch, slow

pytestmark = pytest.mark.e2e
GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReviewServer]:
    with ReviewServer(tmp_path_factory.mktemp("webhook")) as running:
        yield running


@pytest.fixture(scope="module")
def sandbox(hooks: ReviewServer) -> Iterator[FullSandbox]:
    here = ("127.0.0.1", hooks.port)
    with FullSandbox(services={("hooks", "localhost"): here, ("default", "kubernetes"): here}) as running:
        yield running


@pytest.fixture
def place(sandbox: FullSandbox, hooks: ReviewServer, kubectl: Path) -> Iterator[Place]:
    hooks.forget()
    found = Place(Cluster(sandbox, kubectl, "sandbox"), hooks)
    yield found
    found.cluster.clean()


class Place:
    """A namespace, and webhooks that concern only it."""

    def __init__(self, cluster: Cluster, hooks: ReviewServer) -> None:
        self.cluster = cluster
        self.hooks = hooks
        self.namespace = cluster.namespace("hooks")

    def register(self, kind: str, *entries: dict[str, Any], name: str = "config") -> None:
        """Create a configuration (`mutating` or `validating`); `path` of an entry becomes its URL."""
        webhooks = []
        for number, given in enumerate(entries):
            entry = dict(given)
            client = {"url": self.hooks.url(entry.pop("path", "/")), "caBundle": self.hooks.bundle}
            webhooks.append(
                {
                    "name": f"w{number}.example.com",
                    "clientConfig": client,
                    "rules": [RULE],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                    **entry,
                }
            )
        self.cluster.request(
            "POST",
            f"{GROUP}/{kind}webhookconfigurations",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind.title()}WebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": webhooks,
            },
        )

    def create(self, name: str = "c", query: str = "", **body: Any) -> dict[str, Any]:
        """Create a config map."""
        obj = {"metadata": {"name": name, **body.pop("meta", {})}, **body}
        path = f"/api/v1/namespaces/{self.namespace}/configmaps{query}"
        return dict(self.cluster.request("POST", path, obj))

    def refused(self, **arguments: Any) -> RequestFailed:
        """The error of a create that must fail."""
        with pytest.raises(RequestFailed) as refusal:
            self.create(**arguments)
        return refusal.value


def add(key: str, value: str) -> dict[str, str]:
    return {"op": "add", "path": f"/data/{key}", "value": value}


@pytest.mark.smoke
def test_a_patch_is_applied_and_the_review_is_complete(place: Place) -> None:
    place.hooks.answers["/m"] = patch(add("k", "v"), auditAnnotations={"a": "b"})
    place.register("mutating", {"path": "/m", "timeoutSeconds": 7})
    assert place.create(data={"x": "y"})["data"] == {"x": "y", "k": "v"}
    request = place.hooks.seen["/m"][0]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (request["operation"], request["namespace"], request["name"]) == ("CREATE", place.namespace, "c")
    assert request["object"]["data"] == {"x": "y"}
    assert request["oldObject"] is None
    assert request["dryRun"] is False
    assert request["userInfo"]["username"]
    assert place.hooks.queries == ["timeout=7s"]


def test_a_refusal_keeps_code_reason_and_details(place: Place) -> None:
    details = {"causes": [{"reason": "FieldValueInvalid", "message": "too big", "field": "spec.min"}]}
    place.hooks.answers["/v"] = deny("too big", code=403, reason="Forbidden", details=details)
    place.register("validating", {"path": "/v"})
    error = place.refused()
    assert error.status == 403
    assert error.body["message"] == 'admission webhook "w0.example.com" denied the request: too big'
    assert error.body["reason"] == "Forbidden"
    assert error.body["details"]["causes"] == details["causes"]


def test_kubectl_shows_the_refusal_and_the_warnings(place: Place) -> None:
    place.hooks.answers["/v"] = lambda request: {
        "allowed": request["name"] == "good",
        "warnings": ["mind the gap"],
        "status": {"message": "not good", "code": 403, "reason": "Forbidden"},
    }
    place.register("validating", {"path": "/v"})
    good = place.cluster.kubectl("-n", place.namespace, "create", "configmap", "good")
    assert "Warning: mind the gap" in good.stderr
    bad = place.cluster.kubectl("-n", place.namespace, "create", "configmap", "bad", check=False)
    assert bad.returncode == 1
    assert 'admission webhook "w0.example.com" denied the request: not good' in bad.stderr


def test_several_webhooks_run_in_order_and_see_each_others_patches(place: Place) -> None:
    place.hooks.answers["/1"] = patch(add("order", "1"))
    place.hooks.answers["/2"] = lambda request: patch(add("saw", request["object"]["data"]["order"]))(request)
    place.register("mutating", {"path": "/1"}, {"path": "/2"})
    assert place.create(data={"x": "y"})["data"] == {"x": "y", "order": "1", "saw": "1"}


def test_reinvocation_if_needed_looks_again(place: Place) -> None:
    place.hooks.answers["/1"] = lambda request: patch(add("count", str(len(request["object"]["data"]))))(
        request
    )
    place.hooks.answers["/2"] = patch(add("late", "x"))
    place.register("mutating", {"path": "/1", "reinvocationPolicy": "IfNeeded"}, {"path": "/2"})
    assert place.create(data={"x": "y"})["data"] == {"x": "y", "count": "3", "late": "x"}
    assert (len(place.hooks.seen["/1"]), len(place.hooks.seen["/2"])) == (2, 1)


def closed_port() -> int:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        return int(link.getsockname()[1])


def dead(place: Place, policy: str) -> None:
    client = {"url": f"https://127.0.0.1:{closed_port()}/x", "caBundle": place.hooks.bundle}
    place.register("validating", {"clientConfig": client, "failurePolicy": policy})


def test_a_dead_webhook_fails_closed_with_the_servers_words(place: Place) -> None:
    dead(place, "Fail")
    error = place.refused()
    assert error.status == 500
    message = error.body["message"]
    assert message.startswith(
        'Internal error occurred: failed calling webhook "w0.example.com": failed to call webhook: Post "https://'
    )
    assert message.endswith("connect: connection refused")


def test_a_dead_webhook_is_ignored_on_request(place: Place) -> None:
    dead(place, "Ignore")
    assert place.create()["metadata"]["name"] == "c"


def test_a_slow_webhook_times_out(place: Place) -> None:
    place.hooks.answers["/v"] = slow(3)
    place.register("validating", {"path": "/v", "timeoutSeconds": 1})
    assert place.refused().body["message"].endswith("context deadline exceeded")


def test_a_foreign_authority_is_not_trusted(place: Place, tmp_path: Path) -> None:
    with ReviewServer(tmp_path) as other:
        other.answers["/v"] = allow
        client = {"url": other.url("/v"), "caBundle": place.hooks.bundle}
        place.register("validating", {"clientConfig": client})
        assert "tls: failed to verify certificate: x509" in place.refused().body["message"]
        assert not other.seen


BROKEN = [
    ("an empty error", b"", "an error on the server"),
    ("no review", b"{}", "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"),
    (
        "another uid",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true}}',
        'got "x"',
    ),
]


@pytest.mark.parametrize(("sentence", "body", "problem"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_answer_fails_closed(place: Place, sentence: str, body: bytes, problem: str) -> None:
    place.hooks.answers["/v"] = lambda request: body
    place.register("validating", {"path": "/v"})
    error = place.refused()
    assert error.status == 500, sentence
    assert problem in error.body["message"]


def test_selectors_and_conditions_narrow_the_calls(place: Place) -> None:
    place.hooks.answers["/v"] = deny("no")
    condition = {"name": "not-mine", "expression": "!object.metadata.name.startsWith('free-')"}
    selector = {"matchLabels": {"checked": "yes"}}
    place.register("validating", {"path": "/v", "objectSelector": selector, "matchConditions": [condition]})
    place.create(name="unlabelled")
    place.create(name="free-a", meta={"labels": {"checked": "yes"}})
    assert place.refused(name="a", meta={"labels": {"checked": "yes"}}).status == 400


def test_an_unusable_condition_is_refused_at_registration(place: Place) -> None:
    condition = {"name": "rights", "expression": "authorizer.group('').check('get').allowed()"}
    with pytest.raises(RequestFailed) as refusal:
        place.register("validating", {"path": "/v", "matchConditions": [condition]})
    assert refusal.value.status == 422
    assert "undeclared reference to 'authorizer'" in refusal.value.body["message"]


def test_a_condition_that_cannot_be_decided_fails_closed(place: Place) -> None:
    condition = {"name": "c", "expression": "object.data.missing == 'x'"}
    place.register("validating", {"path": "/v", "matchConditions": [condition]})
    error = place.refused(data={"x": "y"})
    assert error.status == 403
    assert "no such key: missing" in error.body["message"]


def test_a_dry_run_is_marked_and_stores_nothing(place: Place) -> None:
    place.hooks.answers["/v"] = allow
    place.register("validating", {"path": "/v"}, name="pure")
    place.create(query="?dryRun=All")
    assert place.hooks.seen["/v"][0]["dryRun"] is True
    place.create()
    assert place.hooks.seen["/v"][1]["dryRun"] is False


SERVICES = [
    ("the name is in the certificate", ("default", "kubernetes"), 'webhook "w0.example.com" denied'),
    ("the name is not in the certificate", ("hooks", "localhost"), "x509"),
    ("the service is not in the table", ("hooks", "other"), 'service "other" not found'),
]


@pytest.mark.parametrize(("sentence", "key", "problem"), SERVICES, ids=[row[0] for row in SERVICES])
def test_a_service_is_resolved_by_the_table(
    place: Place, sentence: str, key: tuple[str, str], problem: str
) -> None:
    place.hooks.answers["/v"] = deny("by service")
    client = {
        "service": {"namespace": key[0], "name": key[1], "path": "/v"},
        "caBundle": place.hooks.bundle,
    }
    place.register("validating", {"clientConfig": client})
    assert problem in place.refused().body["message"], sentence


def test_update_and_delete_carry_the_old_object(place: Place) -> None:
    place.hooks.answers["/v"] = lambda request: {"allowed": request["operation"] != "DELETE"}
    rule = {**RULE, "operations": ["UPDATE", "DELETE"]}
    place.register("validating", {"path": "/v", "rules": [rule]})
    place.create(data={"k": "1"})
    path = f"/api/v1/namespaces/{place.namespace}/configmaps/c"
    place.cluster.request("PATCH", path, {"data": {"k": "2"}})
    with pytest.raises(RequestFailed, match="without explanation"):
        place.cluster.request("DELETE", path)
    update, delete = place.hooks.seen["/v"]
    assert (update["oldObject"]["data"], update["object"]["data"]) == ({"k": "1"}, {"k": "2"})
    assert (delete["oldObject"]["data"], delete["object"]) == ({"k": "2"}, None)


def test_quota_is_checked_after_slow_webhooks_and_never_oversubscribed(place: Place) -> None:
    place.hooks.answers["/v"] = slow(0.05)
    place.register("validating", {"path": "/v"})
    # One is the namespace's own: the authority that its pods trust.
    path = f"/api/v1/namespaces/{place.namespace}"
    eventually(lambda: place.cluster.request("GET", f"{path}/configmaps")["items"])
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "4"}}}
    place.cluster.request("POST", f"{path}/resourcequotas", quota)
    outcomes: list[str] = []

    def attempt(number: int) -> None:
        try:
            place.create(name=f"c{number}")
        except RequestFailed as error:
            outcomes.append(error.body["reason"])
        else:
            outcomes.append("Created")

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["Created"] * 3 + ["Forbidden"] * 9
