"""A gang with a budget: others may not tear it apart, and Muster still evicts all of it, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    bound,
    create_node,
    create_pod,
    create_priority_class,
    get_pod,
    scheduler,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

pytestmark = pytest.mark.told_by("tests/e2e/scheduler/test_gangs.py")

WAIT = 30.0
LABEL = "muster.dev/pod-group-uid"
VERSION = "incubator.scheduling.k8s.io/v1alpha1"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: KUBECONFIG, qps: 1000, burst: 1000}
profiles:
- schedulerName: muster-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}, {name: Coscheduling}]}}
  pluginConfig: [{name: Coscheduling, args: {disruptionBudgets: BUDGETS}}]
"""


def config_file(cluster: Cluster, folder: Path, budgets: str) -> Path:
    path = folder / f"budgets-{budgets}.yaml"
    path.write_text(CONFIG.replace("KUBECONFIG", str(cluster.kubeconfig)).replace("BUDGETS", budgets))
    return path


@pytest.fixture
def namespace(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """A gang of two that runs on one node, with a scheduler that protects it."""
    made = cluster.namespace()
    create_node(cluster, "one", "4")
    create_group(cluster, made, 2)
    with scheduler(cluster, tmp_path, f"--config={config_file(cluster, tmp_path, 'true')}"):
        for name in ("a", "b"):
            create_member(cluster, made, name)
        eventually(lambda: set(bound(cluster, made)) == {"a", "b"}, WAIT)
        for name in ("a", "b"):
            runs(cluster, made, name)
        yield made


def create_group(cluster: Cluster, namespace: str, minimum: int) -> None:
    body = {"apiVersion": VERSION, "kind": "PodGroup", "metadata": {"name": "g"}}
    path = f"/apis/{VERSION}/namespaces/{namespace}/podgroups"
    cluster.request("POST", path, {**body, "spec": {"minMembers": minimum}})


def create_member(cluster: Cluster, namespace: str, name: str) -> None:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": "muster-scheduler",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    meta = {"name": name, "annotations": {"scheduling.k8s.io/group-name": "g"}}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": meta, "spec": spec})


def runs(cluster: Cluster, namespace: str, name: str) -> None:
    """What a kubelet would report."""
    ready = {"type": "Ready", "status": "True"}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    cluster.request("PATCH", path, {"status": {"phase": "Running", "conditions": [ready]}})


def budgets(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.request(
        "GET", f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    )["items"]
    return found


def counted(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """The gang's budget, with the status that the disruption controller gives it."""
    (budget,) = eventually(lambda: budgets(cluster, namespace), WAIT)
    status = {
        "observedGeneration": budget["metadata"]["generation"],
        "currentHealthy": 2,
        "desiredHealthy": budget["spec"]["minAvailable"],
        "expectedPods": 2,
        "disruptionsAllowed": 0,
    }
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{budget['metadata']['name']}/status"
    found: dict[str, Any] = cluster.request("PATCH", path, {"status": status})
    return found


def test_others_may_evict_no_member_and_muster_evicts_the_whole_gang(
    cluster: Cluster, namespace: str
) -> None:
    group = cluster.request("GET", f"/apis/{VERSION}/namespaces/{namespace}/podgroups/g")
    uid = group["metadata"]["uid"]
    budget = counted(cluster, namespace)
    assert budget["metadata"]["name"] == f"podgroup-{uid}"
    assert [owner["uid"] for owner in budget["metadata"]["ownerReferences"]] == [uid]
    assert budget["spec"] == {"minAvailable": 2, "selector": {"matchLabels": {LABEL: uid}}}
    eventually(
        lambda: all(
            get_pod(cluster, namespace, name)["metadata"].get("labels") == {LABEL: uid} for name in ("a", "b")
        ),
        WAIT,
    )
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a", "namespace": namespace},
    }
    with pytest.raises(RequestFailed) as refused:
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods/a/eviction", eviction)
    assert refused.value.status == 429

    def drain_refused() -> bool:
        done = cluster.kubectl(
            "drain", "one", "--force", "--timeout=2s", f"--pod-selector={LABEL}={uid}", check=False
        )
        assert done.returncode != 0
        return "would violate the pod's disruption budget" in done.stderr

    # On a slow machine the time may be over before the first eviction was tried.
    eventually(drain_refused, WAIT)
    cluster.kubectl("uncordon", "one")
    assert set(bound(cluster, namespace)) == {"a", "b"}

    urgent = f"urgent-{namespace}"
    create_priority_class(cluster, urgent)
    create_pod(cluster, namespace, "high", "4", priorityClassName=urgent)
    eventually(lambda: bound(cluster, namespace) == {"high": "one"}, WAIT)
    eventually(lambda: budgets(cluster, namespace) == [], WAIT)


def test_the_budget_goes_when_the_gang_is_done(cluster: Cluster, namespace: str) -> None:
    counted(cluster, namespace)
    for name in ("a", "b"):
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        cluster.request("PATCH", path, {"status": {"phase": "Succeeded"}})
    eventually(lambda: budgets(cluster, namespace) == [], WAIT)


def test_budgets_go_when_they_are_turned_off(cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "4")
    create_group(cluster, namespace, 1)
    with scheduler(cluster, tmp_path, f"--config={config_file(cluster, tmp_path, 'true')}"):
        create_member(cluster, namespace, "a")
        eventually(lambda: len(budgets(cluster, namespace)) == 1, WAIT)
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    theirs = {"metadata": {"name": "theirs"}, "spec": {"minAvailable": 1, "selector": {}}}
    cluster.request("POST", path, theirs)
    with scheduler(cluster, tmp_path, f"--config={config_file(cluster, tmp_path, 'false')}"):
        eventually(
            lambda: [item["metadata"]["name"] for item in budgets(cluster, namespace)] == ["theirs"], WAIT
        )
