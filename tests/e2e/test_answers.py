"""Questions about a live cluster: why, what if, whether it comes true, and what a tenant is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, get_pod, scheduler
from tests.support.clusters.tenant import admit_tenant
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e
BIN = Path(sys.executable).parent
SECONDS = 60
WAIT = 30.0
Run = subprocess.CompletedProcess[str]


@pytest.fixture
def kube(cluster: Cluster, kubectl: Path) -> Callable[..., Run]:
    """Run kubectl with the plugins, as a person does."""
    path = os.pathsep.join([str(BIN), str(kubectl.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig), "NO_COLOR": "1"}

    def run(*argv: str) -> Run:
        return subprocess.run(
            [str(kubectl), *argv], env=environment, capture_output=True, text=True, timeout=SECONDS
        )

    return run


def gang(namespace: str, cpu: str) -> list[dict]:
    """A group of two pods that start together."""
    version = "incubator.scheduling.k8s.io/v1alpha1"
    meta = {"name": "train", "namespace": namespace}
    members = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"train-{i}",
                "namespace": namespace,
                "annotations": {"scheduling.k8s.io/group-name": "train"},
            },
            "spec": {
                "schedulerName": "muster-scheduler",
                "automountServiceAccountToken": False,
                "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
            },
        }
        for i in range(2)
    ]
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": {"minMembers": 2}}
    return [group, *members]


def quota(namespace: str, low: str, high: str) -> dict:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": low}, "max": {"cpu": high}},
    }


@pytest.mark.smoke
def test_the_change_that_why_names_comes_true(
    cluster: Cluster, kube: Callable[..., Run], tmp_path: Path
) -> None:
    """why names a change, what-if tells what it does, the change is applied, and the gang starts there."""
    mine, other = cluster.namespace("asks"), cluster.namespace("lends")
    for name in ("n1", "n2"):
        create_node(cluster, name, cpu="4")
    objects = [quota(mine, "2", "4"), quota(other, "6", "8"), *gang(mine, "3")]
    cluster.kubectl("create", "--validate=false", "-f", "-", input=yaml.safe_dump_all(objects))
    with scheduler(cluster, tmp_path) as process:
        eventually(lambda: "exceed" in _told(cluster, mine) or "more than" in _told(cluster, mine), WAIT)
        asked = kube("elasticquota", "why", "podgroup/train", "-n", mine, "-o", "json")
        assert asked.returncode == 0, asked.stderr
        answer = json.loads(asked.stdout)
        assert answer["waits"]["verdict"] == "waits"
        assert answer["waits"]["told"] == _told(cluster, mine) == answer["waits"]["message"]
        first = answer["fixes"][0]
        assert first["text"] == f"raise max[cpu] from 4 to 6 of ElasticQuota {mine}/quota"
        tried = kube("elasticquota", "what-if", *first["what_if"].split(), "-o", "json")
        assert tried.returncode == 0, tried.stderr
        starts = {item["pod"]: item["node"] for item in json.loads(tried.stdout)["starts"]}
        assert set(starts) == {f"{mine}/train-0", f"{mine}/train-1"}
        assert not bound(cluster, mine)
        cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(quota(mine, "2", "6")))
        eventually(lambda: len(bound(cluster, mine)) == 2, WAIT)
        assert {f"{mine}/{name}": node for name, node in bound(cluster, mine).items()} == starts
        done = kube("elasticquota", "why", "podgroup/train", "-n", mine)
        assert "does not wait: 2 of its pods have a node" in done.stdout
        assert process.end() == 0, process.said()


def _told(cluster: Cluster, namespace: str) -> str:
    conditions = get_pod(cluster, namespace, "train-0").get("status", {}).get("conditions") or ()
    return next((item.get("message", "") for item in conditions if item["type"] == "PodScheduled"), "")


def test_a_snapshot_of_a_cluster_plays_without_it(
    cluster: Cluster, kube: Callable[..., Run], tmp_path: Path
) -> None:
    mine = cluster.namespace("kept")
    create_node(cluster, "n1", cpu="4")
    cluster.kubectl(
        "create",
        "--validate=false",
        "-f",
        "-",
        input=yaml.safe_dump_all([quota(mine, "4", "4"), *gang(mine, "2")]),
    )
    taken = kube("elasticquota", "snapshot", "-A")
    assert taken.returncode == 0, taken.stderr
    file = tmp_path / "cluster.yaml"
    file.write_text(taken.stdout)
    played = kube("elasticquota", "simulate", "--scenario", str(file), "-o", "json")
    assert played.returncode == 0, played.stderr
    (step,) = json.loads(played.stdout)["scenarios"][0]["steps"]
    assert {pod: node for pod, node in step["bound"].items() if pod.startswith(mine)} == {
        f"{mine}/train-0": "n1",
        f"{mine}/train-1": "n1",
    }


def test_a_tenant_learns_nothing_of_others(cluster: Cluster, kube: Callable[..., Run]) -> None:
    """With rights in one namespace on a server with RBAC; the sandbox, without users, lets everybody read."""
    mine, other = cluster.namespace("mine"), cluster.namespace("treasure")
    create_node(cluster, "galleon", cpu="4")
    objects = [quota(mine, "2", "4"), quota(other, "6", "8"), *gang(mine, "3")]
    cluster.kubectl("create", "--validate=false", "-f", "-", input=yaml.safe_dump_all(objects))
    tenant = admit_tenant(cluster, mine)
    as_tenant = ["-n", mine, *(["--as", tenant.user] if cluster.kind != "sandbox" else [])]
    told = ""
    for words in (
        ("elasticquota", "why", "podgroup/train"),
        ("elasticquota", "why", "pod/train-0", "-o", "json"),
        ("elasticquota", "what-if", "--set", f"quota/{mine}:max.cpu=8", "-o", "json"),
        ("elasticquota", "usage"),
        ("elasticquota", "history"),
        ("elasticquota", "snapshot"),
        ("elasticquota", "doctor"),
    ):
        done = kube(*words, *as_tenant)
        assert "Traceback" not in done.stderr
        told += done.stdout + done.stderr
    assert "asks 2 x 3 = 6 cpu" in told
    # The sandbox has no users: there the tenant is everybody else.
    guarded = cluster.kind != "sandbox"
    assert (other not in told and "galleon" not in told) is guarded
    assert ("you may not list" in told) is guarded
