"""Objects with the maximum nesting depth do not disturb readers of other objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, create_pod, scheduler
from tests.support.eventually import eventually

# Of 10,000 that Go's decoder takes. The sandbox is written in Python.
REAL_LEVELS, SANDBOX_LEVELS = 9_000, 500

pytestmark = [pytest.mark.e2e, pytest.mark.told_by("tests/e2e/sandbox/test_fat_objects.py")]


def create_deep_pod(cluster: Cluster, namespace: str, name: str) -> None:
    """What manages the fields of an object is written by its author, as deep as it likes."""
    managed = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    body = {
        "metadata": {"name": name, "managedFields": [{**managed, "fieldsV1": "NESTED"}]},
        "spec": {
            "schedulerName": "elsewhere",
            "containers": [{"name": "main", "image": "example.com/app:1"}],
        },
    }
    levels = SANDBOX_LEVELS if cluster.kind == "sandbox" else REAL_LEVELS
    nested = '{"f:x":' * levels + "{}" + "}" * levels
    text = json.dumps(body).replace('"NESTED"', nested).encode()
    stored = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods?fieldManager=x", text)
    assert str(stored).count("f:x") >= levels


def test_one_deep_pod_stops_no_scheduler(cluster: Cluster, tmp_path: Path) -> None:
    tenant, other = cluster.namespace(), cluster.namespace()
    create_node(cluster, "one", "6")
    create_deep_pod(cluster, tenant, "listed")
    with scheduler(cluster, tmp_path) as process:
        create_pod(cluster, other, "first")
        eventually(lambda: "first" in bound(cluster, other), 40)
        create_deep_pod(cluster, tenant, "watched")
        create_pod(cluster, other, "second")
        eventually(lambda: "second" in bound(cluster, other), 40)
        assert process.end() == 0, process.said()
    for name in ("listed", "watched"):
        # Their lists are too deep for the helpers of these tests.
        cluster.request("DELETE", f"/api/v1/namespaces/{tenant}/pods/{name}?gracePeriodSeconds=0")
