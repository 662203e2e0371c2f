"""Evictions, patches and other writes: what is sent, and what a failed precondition becomes."""

from __future__ import annotations

import json

import pytest

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
)
from scheduler_core.model.kinds import ELASTIC_QUOTAS, LEASES, PODS
from scheduler_core.model.writes import Create, Delete, Evict, Patch, Replace
from tests.support.faults.client import pod
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault


def test_an_eviction_marks_the_pod_and_deletes_it(server: FaultServer, client: Client) -> None:
    uid = pod(server)
    client.write(Evict("a", "p", uid, "PreemptedByMuster", "makes room"))
    assert server.truth("pods") == {}
    marked, deleted = server.requests
    assert marked.path.endswith("/pods/p/status")
    assert marked.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert marked.body == {
        "metadata": {"uid": uid},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptedByMuster",
                    "message": "makes room",
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                }
            ]
        },
    }
    assert deleted.body["preconditions"] == {"uid": uid}
    assert "gracePeriodSeconds" not in deleted.body, "the pod has its own"


def test_an_eviction_says_for_whom_in_the_same_write(server: FaultServer, client: Client) -> None:
    client.write(Evict("a", "p", pod(server), "R", "m", None, ("b/q", "PodGroup b/g")))
    marked, _ = server.requests
    assert [(item["type"], item["message"]) for item in marked.body["status"]["conditions"]] == [
        ("DisruptionTarget", "m"),
        ("muster.dev/PreemptedFor", "b/q,PodGroup b/g"),
    ]


def test_an_eviction_may_say_how_long_the_pod_has(server: FaultServer, client: Client) -> None:
    uid = pod(server)
    client.write(Evict("a", "p", uid, "R", "m", 300))
    _, deleted = server.requests
    assert (deleted.body["preconditions"], deleted.body["gracePeriodSeconds"]) == ({"uid": uid}, 300)


@pytest.mark.parametrize("uid", ["gone", "replaced"])
def test_an_eviction_of_a_deleted_or_replaced_pod_succeeds_without_a_deletion(
    server: FaultServer, client: Client, uid: str
) -> None:
    if uid == "replaced":
        pod(server)
    before = server.truth("pods")
    assert client.write(Evict("a", "p", uid, "R", "m")) == b""
    assert server.truth("pods") == before


def test_a_conflict_while_evicting_the_right_pod_is_told(server: FaultServer, client: Client) -> None:
    uid = pod(server)
    server.fail(Fault("PATCH", status=409, reason="Conflict"))
    with pytest.raises(Conflict):
        client.write(Evict("a", "p", uid, "R", "m"))


def test_a_patch_carries_its_preconditions(server: FaultServer, client: Client) -> None:
    quota = server.put("elasticquotas", "a", "q", spec={})
    stale = Patch(ELASTIC_QUOTAS, "a", "q", {"status": {}}, subresource="status", resource_version="1")
    with pytest.raises(Conflict):
        client.write(stale)
    current = Patch(
        ELASTIC_QUOTAS,
        "a",
        "q",
        {"metadata": {"labels": {"x": "y"}}, "status": {"used": {"cpu": "1"}}},
        uid=quota["metadata"]["uid"],
        resource_version=quota["metadata"]["resourceVersion"],
    )
    client.write(current, dry_run=True)
    request = server.requests[-1]
    assert request.body["metadata"]["labels"] == {"x": "y"}
    assert request.query == {"fieldManager": "muster", "dryRun": "All"}


def test_a_json_patch_tests_its_preconditions_first(server: FaultServer, client: Client) -> None:
    server.fail(Fault("PATCH", status=422, reason="Invalid"))
    operation = {"op": "remove", "path": "/metadata/labels/x"}
    with pytest.raises(ApiError):
        client.write(Patch(PODS, "a", "p", [operation], patch_type="json", uid="u"))
    assert server.requests[-1].body == [{"op": "test", "path": "/metadata/uid", "value": "u"}, operation]


def test_create_replace_and_delete(server: FaultServer, client: Client) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"n": 1}}
    made = json.loads(client.write(Create(LEASES, "a", body)))
    with pytest.raises(AlreadyExists):
        client.write(Create(LEASES, "a", body))
    client.write(Replace(LEASES, "a", "l", {**made, "spec": {"n": 2}}))
    with pytest.raises(Conflict):
        client.write(Replace(LEASES, "a", "l", {**made, "spec": {"n": 3}}))
    with pytest.raises(Conflict):
        client.write(Delete(LEASES, "a", "l", uid="another"))
    client.write(Delete(LEASES, "a", "l", uid=made["metadata"]["uid"], grace_seconds=0), dry_run=True)
    assert server.requests[-1].body["gracePeriodSeconds"] == 0
    assert server.requests[-1].body["dryRun"] == ["All"]
    with pytest.raises(NotFound):
        client.get(LEASES, "a", "l")
