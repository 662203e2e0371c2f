"""What-if and eta on a real API server: what they say comes true, and they write nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.model.timestamps import parse_time
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, create_quota, scheduled_condition, scheduler
from tests.support.eventually import eventually

pytestmark = pytest.mark.told_by("tests/e2e/test_answers.py")

WAIT = 30.0
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1"
QUOTAS = "/apis/scheduling.x-k8s.io/v1alpha1"
HOUR = 3600


def create_pod(cluster: Cluster, namespace: str, name: str, cpu: str, group: str = "", **spec: Any) -> None:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "muster-scheduler", "containers": [container], **spec},
    }
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def versions(cluster: Cluster, namespace: str) -> dict[str, str]:
    """What is stored: the version of every object that the commands read."""
    paths = ["/api/v1/nodes", "/api/v1/configmaps", f"/api/v1/namespaces/{namespace}/pods"]
    paths += [f"{QUOTAS}/elasticquotas", f"{GROUPS}/podgroups", "/apis/events.k8s.io/v1/events"]
    items = [item for path in paths for item in cluster.request("GET", path)["items"] or ()]
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}


def test_what_is_said_comes_true_and_nothing_is_written(cluster: Cluster, tmp_path: Path) -> None:
    team = cluster.namespace("team")
    create_node(cluster, "n1", cpu="4")
    create_quota(cluster, team, {"cpu": "2"}, {"cpu": "2"})
    with scheduler(cluster, tmp_path) as process:
        create_pod(cluster, team, "old", "2", activeDeadlineSeconds=HOUR)
        eventually(lambda: bound(cluster, team) == {"old": "n1"}, WAIT)
        group = {"metadata": {"name": "gang"}, "spec": {"minMembers": 2}}
        kind = {"apiVersion": "incubator.scheduling.k8s.io/v1alpha1", "kind": "PodGroup"}
        cluster.request("POST", f"{GROUPS}/namespaces/{team}/podgroups", {**kind, **group})
        for name in ("m0", "m1"):
            create_pod(cluster, team, name, "1", "gang")
        eventually(lambda: scheduled_condition(cluster, team, "m1").get("status") == "False", WAIT)
        process.end()
    stored = versions(cluster, team)
    raised = f"quota/{team}:max.cpu=4"
    more = f"quota/{team}:min.cpu=4"
    done = cluster.kubectl("elasticquota", "what-if", "--set", raised, "--set", more, "-o", "json")
    found = json.loads(done.stdout)
    said = {item["pod"].removeprefix(f"{team}/"): item["node"] for item in found["starts"]}
    assert said == {"m0": "n1", "m1": "n1"}
    when = json.loads(cluster.kubectl("podgroup", "eta", "gang", "-n", team, "-o", "json").stdout)
    assert when["verdict"] == "expected"
    left = parse_time(when["latest"]) - parse_time(when["now"])
    assert HOUR - 300 < left <= HOUR
    text = cluster.kubectl("podgroup", "eta", "gang", "-n", team).stdout
    assert "rests on  1 pod with a deadline, which may end sooner" in text.splitlines()
    assert versions(cluster, team) == stored
    bounds = {"spec": {"min": {"cpu": "4"}, "max": {"cpu": "4"}}}
    cluster.kubectl("patch", "elasticquota", "quota", "-n", team, "--type=merge", "-p", json.dumps(bounds))
    with scheduler(cluster, tmp_path) as process:
        eventually(lambda: bound(cluster, team) == {"old": "n1", **said}, WAIT)
        process.end()
