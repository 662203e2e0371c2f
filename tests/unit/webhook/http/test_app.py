"""The fast path gives the answers that the Flask views give."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask

from tests.unit.webhook.http.reviews import envelope, namespace, node, pod, quota, synced
from webhook.http.app import create_app
from webhook.http.health import Lifecycle
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher

POD = json.dumps(envelope(pod(namespace="b"))).encode()
QUOTA = json.dumps(envelope(quota(min={"cpu": 12}, max={"cpu": 10}))).encode()
JSON = "application/json"


def made(*, fast_path: bool, lifecycle: Lifecycle | None = None) -> Flask:
    cache = synced(node(cpu="8"), namespace("a"), quota(namespace="b"))
    return create_app(ReviewDispatcher(cache), WebhookMetrics(), lifecycle, fast_path=fast_path)


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type"),
    [
        pytest.param("POST", "/mutate?timeout=2s", POD, JSON, id="a pod that is patched"),
        pytest.param("POST", "/validate?timeout=5s", QUOTA, JSON, id="a quota that is refused"),
        pytest.param("POST", "/validate", b"{}", JSON, id="a body that is no review"),
        pytest.param("POST", "/validate", POD, "text/plain", id="another content type"),
        pytest.param("POST", "/validate", b" " * (8 << 20), JSON, id="a body that is too large"),
        pytest.param("POST", "/validate?" + "x" * 600, POD, JSON, id="a target that is too long"),
        pytest.param("POST", "/other", POD, JSON, id="another path"),
        pytest.param("GET", "/mutate", b"", JSON, id="another method"),
        pytest.param("OPTIONS", "/validate", b"", JSON, id="the method that Flask answers by itself"),
    ],
)
@pytest.mark.parametrize("stopping", [False, True], ids=["running", "stopping"])
def test_both_ways_give_the_same_answer(
    method: str, path: str, body: bytes, content_type: str, stopping: bool
) -> None:
    answers: list[Any] = []
    for fast_path in (True, False):
        life = Lifecycle()
        if stopping:
            life.stop()
        client = made(fast_path=fast_path, lifecycle=life).test_client()
        answer = client.open(path, method=method, data=body, content_type=content_type)
        answers.append((answer.status_code, answer.data, sorted(answer.headers.items())))
    assert answers[0] == answers[1]
    assert ("Connection", "close") in answers[0][2] or not stopping


@pytest.mark.parametrize(("fast_path", "by_flask"), [(True, 0), (False, 1)])
def test_a_review_reaches_flask_only_without_the_fast_path(fast_path: bool, by_flask: int) -> None:
    app, seen = made(fast_path=fast_path), []
    app.before_request(lambda: seen.append(1))
    answer = app.test_client().post("/mutate", data=POD, content_type=JSON)
    assert (answer.status_code, len(seen)) == (200, by_flask)


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type", "code"),
    [
        pytest.param("GET", "/mutate", b"", JSON, 405, id="another method"),
        pytest.param("PUT", "/validate", QUOTA, JSON, 405, id="a method with a body"),
        pytest.param("POST", "/other", POD, JSON, 404, id="another path"),
        pytest.param("POST", "/validate", POD, "text/plain", 415, id="another content type"),
        pytest.param("POST", "/validate", b" " * (8 << 20), JSON, 413, id="a body that is too large"),
        pytest.param("POST", "/validate?" + "x" * 600, POD, JSON, 414, id="a target that is too long"),
        pytest.param("POST", "/validate", b"{}", JSON, 400, id="a body that is no review"),
    ],
)
@pytest.mark.parametrize("fast_path", [True, False], ids=["on the fast path", "by Flask"])
def test_what_is_no_review_is_counted_once_by_its_code(
    method: str, path: str, body: bytes, content_type: str, code: int, fast_path: bool
) -> None:
    metrics = WebhookMetrics()
    app = create_app(ReviewDispatcher(synced()), metrics, fast_path=fast_path)
    answer = app.test_client().open(path, method=method, data=body, content_type=content_type)
    assert answer.status_code == code
    counted = {
        sample.labels["code"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "muster_admission_failures_total"
    }
    assert counted == {str(code): 1.0}
