"""Jobs and JobSets with their real controllers become gangs; nothing in them names a group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import SchedulerProcess, bound, create_node, scheduler
from tests.support.documents import ROOT, blocks, commands
from tests.support.eventually import eventually

WAIT = 150.0
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{}/podgroups"


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


def template(restart: str = "Never") -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": 0, "containers": [container]}}


def indexed(size: int) -> dict[str, Any]:
    return {
        "completionMode": "Indexed",
        "parallelism": size,
        "completions": size,
        "template": template(),
    }


def create_job(cluster: Cluster, namespace: str, size: int) -> None:
    cluster.request("POST", JOBS.format(namespace), {"metadata": {"name": "train"}, "spec": indexed(size)})


def create_job_set(cluster: Cluster, namespace: str, replicas: int, size: int) -> None:
    """As the webhook of JobSet would complete it."""
    spec = {
        "replicatedJobs": [{"name": "w", "replicas": replicas, "template": {"spec": indexed(size)}}],
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    }
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "llm"}}
    cluster.request("POST", JOB_SETS.format(namespace), {**body, "spec": spec})


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def groups(cluster: Cluster, namespace: str) -> dict[str, int]:
    items = cluster.request("GET", GROUPS.format(namespace))["items"]
    return {item["metadata"]["name"]: item["spec"]["minMembers"] for item in items}


def await_short(cluster: Cluster, namespace: str, count: int) -> None:
    """Wait until all pods exist and were refused, none with a node."""

    def refused() -> bool:
        found = pods(cluster, namespace)
        assert len(found) == count, [pod["metadata"]["name"] for pod in found]
        conditions = [
            [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"] for pod in found
        ]
        return all(each and each[0]["status"] == "False" for each in conditions)

    eventually(refused, WAIT)
    assert bound(cluster, namespace) == {}


def test_indexed_job_starts_whole_or_not_at_all(
    cluster: Cluster, team: str, running: SchedulerProcess
) -> None:
    create_node(cluster, "one", "3")
    create_job(cluster, team, 4)
    await_short(cluster, team, 4)
    assert groups(cluster, team) == {"job-train": 4}
    create_node(cluster, "two", "3")
    eventually(lambda: len(bound(cluster, team)) == 4, WAIT)


def test_job_set_starts_whole_or_not_at_all_and_takes_its_group_with_it(
    cluster: Cluster, team: str, running: SchedulerProcess
) -> None:
    create_node(cluster, "one", "5")
    create_job_set(cluster, team, 2, 3)
    await_short(cluster, team, 6)
    assert groups(cluster, team) == {"jobset-llm": 6}
    create_node(cluster, "two", "1")
    eventually(lambda: len(bound(cluster, team)) == 6, WAIT)
    path = f"{JOB_SETS.format(team)}/llm"
    cluster.request("DELETE", path, {"propagationPolicy": "Background"})
    eventually(lambda: groups(cluster, team) == {}, WAIT)


def test_job_that_was_scaled_changes_its_group(
    cluster: Cluster, team: str, running: SchedulerProcess
) -> None:
    create_node(cluster, "one", "2")
    create_job(cluster, team, 4)
    await_short(cluster, team, 4)
    cluster.request("PATCH", f"{JOBS.format(team)}/train", {"spec": {"parallelism": 2, "completions": 2}})
    eventually(lambda: groups(cluster, team) == {"job-train": 2}, WAIT)
    eventually(lambda: len(bound(cluster, team)) == 2, WAIT)


def test_job_in_a_namespace_without_the_label_has_no_group(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "3")
    create_job(cluster, namespace, 4)
    eventually(lambda: len(pods(cluster, namespace)) == 4, WAIT)
    assert groups(cluster, namespace) == {}


def test_tour_of_gangs_from_owners(
    cluster: Cluster, running: SchedulerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The section `Gangs without an annotation` of the examples, typed as it stands there."""
    monkeypatch.chdir(ROOT)
    (typed,) = [block for block in blocks("examples/README.md", "sh") if "gangs-from-owners" in block]
    apply, apply_set, listing, status, listing_pods, delete = typed.splitlines()
    (label,) = [line for line in commands("docs/gangs.md", "sh") if "label namespace" in line]
    create_node(cluster, "one", "4")

    def type_in(line: str) -> str:
        program, *arguments = line.split()
        assert program == "kubectl"
        return cluster.kubectl(*arguments).stdout

    type_in("kubectl create namespace team-a")
    assert type_in(label) == "namespace/team-a labeled\n"
    type_in(apply)
    type_in(apply_set)
    eventually(lambda: len(bound(cluster, "fleet")) == 7, WAIT)
    rows = [row.split() for row in type_in(listing).splitlines()[1:]]
    assert [(row[0], row[2]) for row in rows] == [("job-boat", "3"), ("jobset-convoy", "4")]
    said = type_in(status)
    assert "convoy-ship-0-0" in said
    assert "convoy-ship-1-1" in said
    assert type_in(listing_pods).count(" ship\n") == 4
    type_in(delete)
    eventually(lambda: groups(cluster, "fleet") == {"job-boat": 3}, WAIT)
