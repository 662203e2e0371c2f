"""A Job that lends what it borrowed back, pod by pod, on the sandbox with its Job controller and kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.full_sandbox import FullSandbox
from tests.support.clusters.scheduler import (
    SCHEDULER,
    await_quota,
    create_pod,
    create_quota,
    events,
    scheduler,
)
from tests.support.eventually import eventually

pytestmark = pytest.mark.told_by("tests/e2e/scheduler/test_reclaim_grace.py")

CRDS = Path(__file__).parents[3] / "charts" / "muster" / "crds"
WAIT = 60.0
ALL, OWN = 24, 12
IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.fixture
def full(kubectl: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes with a CPU for each pod of the Job, and a scheduler."""
    with FullSandbox(nodes=3) as running:
        cluster = Cluster(running, kubectl, "sandbox")
        cluster.kubectl("apply", "-f", str(CRDS))
        await_established(running)
        with scheduler(cluster, tmp_path) as process:
            yield cluster
            assert process.end() == 0, process.said()


def start_job(cluster: Cluster, namespace: str, **spec: Any) -> None:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"sandbox.muster.dev/run-seconds": "600"}},
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": ALL, "completions": ALL, "template": template, **spec},
    }
    cluster.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body)


def status_of(cluster: Cluster, namespace: str) -> dict[str, Any]:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/train"
    found: dict[str, Any] = cluster.request("GET", path).get("status") or {}
    return found


def running_pods(cluster: Cluster, namespace: str) -> int:
    pods = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def await_running(cluster: Cluster, namespace: str, number: int) -> None:
    def all_run() -> bool:
        found = running_pods(cluster, namespace)
        assert found == number, f"{found} of {number} run"
        return True

    eventually(all_run, WAIT)


@pytest.mark.parametrize("survives", [True, False], ids=["ignores evictions", "counts evictions"])
def test_a_job_of_24_loses_12_pods(full: Cluster, survives: bool) -> None:
    lender, borrower = full.namespace("lender"), full.namespace("borrower")
    for namespace in (lender, borrower):
        create_quota(full, namespace, {"cpu": str(OWN)}, {"cpu": str(ALL)})
    await_quota(full, lender, borrower)
    start_job(full, borrower, **({"podFailurePolicy": {"rules": [IGNORE]}} if survives else {}))
    await_running(full, borrower, ALL)
    for index in range(OWN):
        create_pod(full, lender, f"own-{index}")
        await_running(full, lender, index + 1)
    if not survives:
        eventually(lambda: _failed(full, borrower), WAIT)
        return
    await_running(full, borrower, OWN)
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{borrower}/elasticquotas/quota"

    def written() -> bool:
        # Statuses come later than pods: a quota's at most once a second.
        told = status_of(full, borrower)
        assert ("failed" in told, told.get("conditions"), told["active"]) == (False, None, ALL)
        last = full.request("GET", path)["status"]["lastReclaim"]
        assert (last["byQuota"], last["resources"], last["pods"]) == (f"{lender}/quota", {"cpu": "1"}, 1)
        assert last["by"] == f"Pod {lender}/own-{OWN - 1}"
        return True

    eventually(written, WAIT)

    def all_told() -> bool:
        found = [e["regarding"]["kind"] for e in events(full, borrower, "Reclaimed")]
        assert (found.count("Job"), found.count("ElasticQuota")) == (OWN, OWN), found
        return True

    eventually(all_told, WAIT)


def _failed(cluster: Cluster, namespace: str) -> bool:
    conditions = status_of(cluster, namespace).get("conditions") or ()
    reasons = {item["reason"] for item in conditions if item["type"] == "Failed"}
    assert reasons == {"BackoffLimitExceeded"}, conditions
    return True
