"""A reclaim takes half of a Job's pods: what its real controller makes of it, with and without a rule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.owners.test_owner_gangs import JOBS, WAIT, template
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    await_quota,
    bound,
    create_node,
    create_quota,
    scheduler,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

SIZE = 24
GUARANTEED = 12
IGNORE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


@pytest.fixture
def teams(cluster: Cluster, running: SchedulerProcess) -> Iterator[tuple[str, str]]:
    """Two namespaces that share a node for SIZE pods, half of it guaranteed to each."""
    create_node(cluster, "one", str(SIZE))
    names = cluster.namespace("borrower"), cluster.namespace("owner")
    for name in names:
        cpus = {"cpu": str(GUARANTEED)}, {"cpu": str(SIZE)}
        eventually(lambda name=name: bool(accounts(cluster, name)))  # type: ignore[misc]
        create_quota(cluster, name, *cpus)
    await_quota(cluster, *names)
    yield names
    marked = {"metadata": {"annotations": {"muster.dev/delete-while-used": "true"}}}
    for name in names:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{name}/elasticquotas/quota"
        cluster.request("PATCH", path, marked)


def accounts(cluster: Cluster, namespace: str) -> list[Any]:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    found: list[Any] = cluster.request("GET", path)["items"]
    return found


def create_job(cluster: Cluster, namespace: str, size: int, policy: dict[str, Any] | None = None) -> None:
    spec: dict[str, Any] = {"parallelism": size, "completions": size, "template": template()}
    if policy:
        spec["podFailurePolicy"] = policy
    cluster.request("POST", JOBS.format(namespace), {"metadata": {"name": "train"}, "spec": spec})


def job_status(cluster: Cluster, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.request("GET", f"{JOBS.format(namespace)}/train")["status"]
    return found


def end_evicted(cluster: Cluster, namespace: str) -> None:
    """What a kubelet reports of pods that were deleted."""
    for pod in cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]:
        leaves = "deletionTimestamp" in pod["metadata"] and pod["status"].get("phase") != "Failed"
        if leaves and pod["spec"].get("nodeName"):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status"
            # The Job's controller may have let it go meanwhile.
            with suppress_missing():
                cluster.request("PATCH", path, {"status": {"phase": "Failed"}})


@contextmanager
def suppress_missing() -> Iterator[None]:
    try:
        yield
    except RequestFailed as error:
        if error.status != 404:
            raise


def reclaim(cluster: Cluster, borrower: str, owner: str, policy: dict[str, Any] | None) -> None:
    """The Job has all of the node, until the other team asks for its half."""
    create_job(cluster, borrower, SIZE, policy)
    eventually(lambda: len(bound(cluster, borrower)) == SIZE, WAIT)
    create_job(cluster, owner, GUARANTEED)

    def reclaimed() -> bool:
        end_evicted(cluster, borrower)
        return len(bound(cluster, owner)) == GUARANTEED

    eventually(reclaimed, WAIT, interval=0.5)


def test_job_that_ignores_disruptions_survives_twelve_evictions(
    cluster: Cluster, teams: tuple[str, str]
) -> None:
    borrower, owner = teams
    reclaim(cluster, borrower, owner, IGNORE)

    def accounted() -> bool:
        end_evicted(cluster, borrower)
        path = f"/api/v1/namespaces/{borrower}/pods"
        phases = [pod["status"].get("phase") for pod in cluster.request("GET", path)["items"]]
        return "Failed" not in phases and len(phases) >= SIZE - GUARANTEED

    # Its controller creates other pods after a pause, ten minutes at most, that grows with each of them.
    eventually(accounted, WAIT, interval=0.5)
    assert len(bound(cluster, borrower)) == SIZE - GUARANTEED
    status = job_status(cluster, borrower)
    assert (status.get("failed", 0), status.get("conditions")) == (0, None)


def test_job_without_the_rule_dies_of_twelve_evictions(cluster: Cluster, teams: tuple[str, str]) -> None:
    borrower, owner = teams
    reclaim(cluster, borrower, owner, None)

    def failed() -> bool:
        end_evicted(cluster, borrower)
        conditions = job_status(cluster, borrower).get("conditions") or ()
        return any((c["type"], c["reason"]) == ("Failed", "BackoffLimitExceeded") for c in conditions)

    eventually(failed, WAIT, interval=0.5)
