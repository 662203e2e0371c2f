"""A view that may be old is used, and said to be old."""

from __future__ import annotations

import json

import pytest
from flask.testing import FlaskClient

from tests.unit.webhook.reviews import envelope, node, pod, quota, synced
from webhook.app import create_app
from webhook.freshness import STALE_SECONDS, Freshness
from webhook.metrics import Metrics
from webhook.service import Service
from webhook.verdict import allow


def test_fresh_view_is_not_spoken_of() -> None:
    verdict = allow(["own words"], quota="eq")
    assert Freshness().noted(verdict) is verdict
    assert Freshness(lambda: {"nodes": STALE_SECONDS, "namespaces": 1.0}).noted(verdict) is verdict


def test_old_view_is_a_warning_and_an_audit_annotation() -> None:
    noted = Freshness(lambda: {"nodes": 100.4, "namespaces": 1.0}).noted(allow(["own words"], quota="eq"))
    words = "the muster webhook has not heard of changes in the cluster for 100 s"
    assert noted.warnings == ("own words", words)
    assert noted.audit == {"quota": "eq", "stale-seconds": "100"}


@pytest.fixture
def client() -> FlaskClient:
    cache = synced(node(cpu="8"), quota(namespace="b"))
    ages = Freshness(lambda: {"nodes": 120.0, "elasticquotas": 2.5})
    return create_app(Service(cache), Metrics(), freshness=ages).test_client()


def test_reviews_are_answered_all_the_same(client: FlaskClient) -> None:
    answer = client.post("/mutate", data=json.dumps(envelope(pod(meta={"namespace": "b"}))), headers=JSON)
    response = answer.get_json()["response"]
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert response["auditAnnotations"]["stale-seconds"] == "120"
    assert client.get("/readyz").status_code == 200


JSON = {"Content-Type": "application/json"}


def test_age_of_each_watch_is_a_metric(client: FlaskClient) -> None:
    text = client.get("/metrics").get_data(as_text=True)
    assert 'muster_webhook_watch_staleness_seconds{resource="nodes"} 120.0' in text
    assert 'muster_webhook_watch_staleness_seconds{resource="elasticquotas"} 2.5' in text
    assert "muster_admission_reviews_in_flight 0.0" in text
