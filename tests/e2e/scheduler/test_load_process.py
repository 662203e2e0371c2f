"""Load from a metrics API through the whole process: NodeMetrics are filled, the hot node is avoided.

The metrics API is served by the API server itself, from custom resources that have the paths and shapes of
metrics.k8s.io; on the real kube-apiserver an aggregated server would need a network that tests have not.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.model.timestamps import format_time
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.scheduler import bound, create_node, events, scheduled_condition, scheduler
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

pytestmark = pytest.mark.told_by("tests/e2e/scheduler/test_load_reporter.py")

METRICS = "/apis/metrics.k8s.io/v1beta1"
REPORTS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# The reporter asks every 15 seconds.
WAIT = 60.0

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: 1000, burst: 1000}}
leaderElection: {{leaderElect: false}}
profiles:
- schedulerName: by-load
  plugins:
    multiPoint: {{enabled: [{{name: LoadAwareScheduling}}]}}
  pluginConfig:
  - name: LoadAwareScheduling
    args: {{usageThresholds: {{cpu: 70}}}}
"""


def metrics_crd(plural: str, kind: str, *, namespaced: bool) -> dict[str, Any]:
    """A kind of metrics.k8s.io as a custom resource."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    singular = f"{plural.removesuffix('s')}metrics"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": f"{kind}List"},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


@pytest.fixture
def metrics_api(cluster: Cluster) -> Iterator[str]:
    """The server serves metrics.k8s.io until the test ends; the group's path."""
    made = [
        metrics_crd("nodes", "NodeMetrics", namespaced=False),
        metrics_crd("pods", "PodMetrics", namespaced=True),
    ]
    for crd in made:
        cluster.request("POST", CRDS, crd)
    await_established(cluster.server)
    yield METRICS
    for crd in made:
        cluster.request("DELETE", f"{CRDS}/{crd['metadata']['name']}")

    def gone() -> bool:
        try:
            cluster.request("GET", f"{METRICS}/nodes")
        except RequestFailed as error:
            return error.status == 404
        return False

    eventually(gone, WAIT)


def measure(cluster: Cluster, path: str, name: str, **fields: Any) -> None:
    """What a metrics server says now of a node or a pod."""
    stamp = format_time(time.time())
    kind = "NodeMetrics" if path.endswith("/nodes") else "PodMetrics"
    body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}}
    cluster.request("POST", path, body | {"timestamp": stamp, "window": "15s"} | fields)


def create_member(cluster: Cluster, namespace: str, name: str, **spec: Any) -> None:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"schedulerName": "by-load", "terminationGracePeriodSeconds": 0, "containers": [container]} | spec
    cluster.request(
        "POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec}
    )


def report(cluster: Cluster, node: str) -> dict[str, Any]:
    """The node's NodeMetric once it says something."""
    found: dict[str, Any] = {}

    def filled() -> bool:
        try:
            found.update(cluster.request("GET", f"{REPORTS}/{node}"))
        except RequestFailed as error:
            if error.status != 404:
                raise
        return "nodeMetric" in found.get("status", {})

    eventually(filled, WAIT)
    return found


def await_refused(cluster: Cluster, namespace: str, node: str) -> None:
    """Wait until pods get no place on a node, as it is too busy.

    The scheduler learns of a report by a watch: a pod that comes before it is still placed there.
    """
    numbers = itertools.count()

    def refused() -> bool:
        name = f"new-{next(numbers)}"
        create_member(cluster, namespace, name, nodeSelector={"kubernetes.io/hostname": node})
        condition = eventually(lambda: scheduled_condition(cluster, namespace, name), WAIT)
        if condition["status"] == "True":
            cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
            return False
        assert "cpu usage exceed threshold" in condition["message"]
        return True

    eventually(refused, WAIT)
    notes = [
        event["note"] for event in eventually(lambda: events(cluster, namespace, "FailedScheduling"), WAIT)
    ]
    assert all("cpu usage exceed threshold" in note for note in notes), notes


@pytest.mark.usefixtures("metrics_api")
def test_the_process_fills_node_metrics_and_avoids_the_hot_node(cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    for name in ("cold", "hot", "watched"):
        create_node(cluster, name)
    agent = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "watched"},
        "spec": {},
    }
    before = cluster.request("POST", REPORTS, agent)["metadata"]["resourceVersion"]
    create_member(cluster, namespace, "worker", nodeName="hot")
    measure(cluster, f"{METRICS}/nodes", "cold", usage={"cpu": "200m", "memory": "1Gi"})
    measure(cluster, f"{METRICS}/nodes", "hot", usage={"cpu": "3500m", "memory": "2Gi"})
    measure(cluster, f"{METRICS}/nodes", "watched", usage={"cpu": "100m", "memory": "1Gi"})
    containers = [
        {"name": "main", "usage": {"cpu": "3", "memory": "1Gi"}},
        {"name": "side", "usage": {"cpu": "250m", "memory": "512Mi"}},
    ]
    measure(cluster, f"{METRICS}/namespaces/{namespace}/pods", "worker", containers=containers)

    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(kubeconfig=cluster.kubeconfig))
    with scheduler(cluster, tmp_path, f"--config={config}", "--report-node-metrics") as process:
        hot, cold = report(cluster, "hot"), report(cluster, "cold")
        assert hot["metadata"]["annotations"] == {"muster.dev/reported-by": "muster-scheduler"}
        assert hot["status"]["nodeMetric"]["nodeUsage"]["resources"] == {"cpu": "3500m", "memory": "2Gi"}
        assert hot["status"]["nodeMetric"]["systemUsage"]["resources"] == {"cpu": "250m", "memory": "512Mi"}
        (entry,) = hot["status"]["podsMetric"]
        assert (entry["namespace"], entry["name"], entry["priority"]) == (namespace, "worker", "koord-prod")
        assert entry["podUsage"]["resources"] == {"cpu": "3250m", "memory": "1536Mi"}
        assert cold["status"]["podsMetric"] == []

        await_refused(cluster, namespace, "hot")
        for index in range(4):
            create_member(cluster, namespace, f"free-{index}")
        free = {f"free-{index}" for index in range(4)}
        nodes = eventually(lambda: found if free <= set(found := bound(cluster, namespace)) else None, WAIT)
        assert {nodes[name] for name in free} == {"cold"}
        assert cluster.request("GET", f"{REPORTS}/watched")["metadata"]["resourceVersion"] == before
        assert process.end() == 0, process.said()
