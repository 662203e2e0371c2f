"""AdmissionReview requests, and the interpretation of responses."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from sandbox.access.identity import Identity
from sandbox.admission.webhook_client import WebhookCallFailed, target_of
from sandbox.admission.webhook_review import InvalidResponse, denial, patched, read_answer, review_of
from sandbox.admission.webhook_rules import read_webhooks
from sandbox.kinds.builtin import EVENTS, EVENTS_V1, PODS
from sandbox.store.requests import AdmissionRequest, RequestContext


def answer(**response: Any) -> bytes:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", **response},
    }
    return json.dumps(review).encode()


def encoded(operations: Any) -> str:
    return base64.b64encode(json.dumps(operations).encode()).decode()


def test_a_review_names_the_matched_and_the_requested_kind() -> None:
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}
    context = RequestContext(Identity("me", ("g",), "u", (("k", ("v",)),)), dry_run=True)
    req = AdmissionRequest("CREATE", EVENTS, "ns", "e", event, None, context)
    sent = review_of(req, EVENTS_V1, "uid-1")["request"]
    assert sent["uid"] == "uid-1"
    assert sent["kind"] == {"group": "events.k8s.io", "version": "v1", "kind": "Event"}
    assert sent["requestKind"] == {"group": "", "version": "v1", "kind": "Event"}
    assert sent["resource"] == {"group": "events.k8s.io", "version": "v1", "resource": "events"}
    assert sent["object"]["apiVersion"] == "events.k8s.io/v1"
    assert sent["oldObject"] is None
    assert sent["userInfo"] == {"username": "me", "groups": ["g"], "uid": "u", "extra": {"k": ["v"]}}
    assert sent["dryRun"] is True
    assert sent["options"]["kind"] == "CreateOptions"
    assert (sent["namespace"], sent["name"]) == ("ns", "e")


def test_a_subresource_review_carries_the_bodys_kind() -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    req = AdmissionRequest("CREATE", PODS, "ns", "p", binding, None, subresource="binding")
    sent = review_of(req, PODS, "u")["request"]
    assert sent["kind"]["kind"] == "Binding"
    assert sent["subResource"] == "binding"
    assert sent["object"] == binding


BROKEN = [
    ("no JSON", b"hello", "couldn't decode"),
    ("no object", b"[]", "not a JSON object"),
    ("another kind", b'{"apiVersion":"v1","kind":"Pod"}', "expected webhook response of admission.k8s.io/v1"),
    ("no response", b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "response was absent"),
    ("another uid", answer(uid="x"), 'expected response.uid="u", got "x"'),
    ("a patch without its type", answer(patch="W10="), "but not response.patchType"),
    ("a type without a patch", answer(patchType="JSONPatch"), "but not response.patch"),
    ("another patch type", answer(patch="W10=", patchType="Merge"), 'invalid response.patchType of "Merge"'),
    (
        "a patch that is no base64",
        answer(patch="!!", patchType="JSONPatch"),
        "not a base64-encoded JSON patch",
    ),
    (
        "a patch that is no list",
        answer(patch=encoded({}), patchType="JSONPatch"),
        "not a base64-encoded JSON patch",
    ),
]


@pytest.mark.parametrize(("sentence", "body", "problem"), BROKEN, ids=[row[0] for row in BROKEN])
def test_broken_answers(sentence: str, body: bytes, problem: str) -> None:
    with pytest.raises(InvalidResponse) as failure:
        read_answer(body, "u", mutating=True)
    assert problem in str(failure.value), sentence


def test_a_patch_is_read_and_applied() -> None:
    operations = [{"op": "add", "path": "/spec/schedulerName", "value": "muster-scheduler"}]
    body = answer(allowed=True, patch=encoded(operations), patchType="JSONPatch", warnings=["careful"])
    verdict = read_answer(body, "u", mutating=True)
    assert verdict.allowed
    assert verdict.warnings == ("careful",)
    assert verdict.patch is not None
    before = {"spec": {"containers": []}}
    assert patched(before, verdict.patch)["spec"]["schedulerName"] == "muster-scheduler"
    assert before == {"spec": {"containers": []}}


def test_a_validating_answer_cannot_patch() -> None:
    body = answer(allowed=True, patch=encoded([]), patchType="JSONPatch")
    assert read_answer(body, "u", mutating=False).patch is None


def test_a_patch_that_does_not_apply_is_refused() -> None:
    with pytest.raises(InvalidResponse, match="cannot be applied"):
        patched({}, [{"op": "remove", "path": "/spec"}])


DENIALS = [
    ("a message with code and reason", {"code": 403, "reason": "Forbidden", "message": "no"}, 403, ": no"),
    ("a reason alone", {"reason": "Because"}, 400, ": Because"),
    ("nothing", {}, 400, " without explanation"),
    ("a success code is no refusal", {"code": 200, "message": "no"}, 400, ": no"),
]


@pytest.mark.parametrize(("sentence", "status", "code", "ending"), DENIALS, ids=[row[0] for row in DENIALS])
def test_denials(sentence: str, status: dict[str, Any], code: int, ending: str) -> None:
    error = denial("w.example.com", status)
    assert (error.code, error.reason) == (code, status.get("reason", "")), sentence
    assert error.message == f'admission webhook "w.example.com" denied the request{ending}'


def test_details_are_passed_on() -> None:
    details = {"causes": [{"field": "spec.min", "message": "m", "reason": "FieldValueInvalid"}]}
    assert denial("w", {"details": details}).to_status()["details"] == details


def target(client: dict[str, Any], services: dict[tuple[str, str], tuple[str, int]]) -> Any:
    hooks = [{"name": "w", "clientConfig": client, "timeoutSeconds": 5}]
    return target_of(read_webhooks({"metadata": {"name": "c"}, "webhooks": hooks})[0], services)


def test_a_url_gets_the_timeout() -> None:
    assert target({"url": "https://127.0.0.1:9/v"}, {}).url == "https://127.0.0.1:9/v?timeout=5s"


def test_a_service_resolves_through_the_table_and_keeps_its_name_for_tls() -> None:
    client = {"service": {"namespace": "ns", "name": "svc", "path": "/v"}}
    found = target(client, {("ns", "svc"): ("127.0.0.1", 8443)})
    assert found.url == "https://127.0.0.1:8443/v?timeout=5s"
    assert found.shown_url == "https://svc.ns.svc:443/v?timeout=5s"
    assert found.server_name == "svc.ns.svc"


def test_an_unknown_service_is_a_failed_call() -> None:
    with pytest.raises(WebhookCallFailed, match='service "svc" not found'):
        target({"service": {"namespace": "ns", "name": "svc"}}, {})
