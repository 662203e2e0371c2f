"""A view that may be old is used, and said to be old."""

from __future__ import annotations

import json

from tests.unit.webhook.http.reviews import envelope, node, pod, quota, synced
from webhook.http.app import create_app
from webhook.http.health import health_server
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.policy.verdict import allow
from webhook.view.freshness import STALE_SECONDS, Freshness


def test_fresh_view_is_not_spoken_of() -> None:
    verdict = allow(["own words"], quota="eq")
    assert Freshness().noted(verdict) is verdict
    assert Freshness(lambda: {"nodes": STALE_SECONDS, "namespaces": 1.0}).noted(verdict) is verdict


def test_old_view_is_a_warning_and_an_audit_annotation() -> None:
    noted = Freshness(lambda: {"nodes": 100.4, "namespaces": 1.0}).noted(allow(["own words"], quota="eq"))
    words = "the muster webhook has not heard of changes in the cluster for 100 s"
    assert noted.warnings == ("own words", words)
    assert noted.audit == {"quota": "eq", "stale-seconds": "100"}


CACHE = synced(node(cpu="8"), quota(namespace="b"))
AGES = Freshness(lambda: {"nodes": 120.0, "elasticquotas": 2.5})
JSON = {"Content-Type": "application/json"}


def test_reviews_are_answered_all_the_same() -> None:
    client = create_app(ReviewDispatcher(CACHE), WebhookMetrics(), freshness=AGES).test_client()
    answer = client.post("/mutate", data=json.dumps(envelope(pod(meta={"namespace": "b"}))), headers=JSON)
    response = answer.get_json()["response"]
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert response["auditAnnotations"]["stale-seconds"] == "120"


def test_age_of_each_watch_is_a_metric_and_no_reason_not_to_be_ready() -> None:
    door = health_server(("127.0.0.1", 0), CACHE, WebhookMetrics(), fresh=AGES)
    try:
        assert door.answer("/readyz")[0] == 200
        text = door.answer("/metrics")[2].decode()
    finally:
        door.stop()
    assert 'muster_webhook_watch_staleness_seconds{resource="nodes"} 120.0' in text
    assert 'muster_webhook_watch_staleness_seconds{resource="elasticquotas"} 2.5' in text
    assert "muster_admission_reviews_in_flight 0.0" in text
