"""The topology seed's ConfigMaps and Job, made with real kubectl; ranks are read where pods read them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, watch

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.full_sandbox import FullSandbox
from tests.support.clusters.scheduler import scheduler
from tests.support.eventually import eventually
from tests.support.sakkara import CONFIG, GROUP, JOB, TOPOLOGY

pytestmark = [pytest.mark.e2e, pytest.mark.told_by("tests/e2e/scheduler/test_topology_groups.py")]

WAIT = 30.0


@pytest.fixture(scope="module")
def cluster_of_six(kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Six nodes in two racks with the seed's topology, and a scheduler named sakkara."""
    with FullSandbox(nodes=6) as running:
        cluster = Cluster(running, kubectl, "sandbox")
        crds = Path(__file__).parents[3] / "charts" / "muster" / "crds"
        cluster.kubectl("apply", "-f", str(crds))
        cluster.kubectl("create", "namespace", "sakkara")
        cluster.kubectl("apply", "-n", "sakkara", "-f", "-", input=TOPOLOGY)
        folder = tmp_path_factory.mktemp("scheduler")
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(kubeconfig=cluster.kubeconfig, namespace="sakkara"))
        with scheduler(cluster, folder, f"--config={config}"):
            yield cluster


def pods_of(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    items = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]


def await_placed(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    def placed() -> list[dict[str, Any]]:
        pods = pods_of(cluster, namespace)
        assert len(pods) == 8
        assert all(pod["spec"].get("nodeName") for pod in pods), [p.get("status") for p in pods]
        return pods

    return eventually(placed, WAIT)


def results(cluster: Cluster, namespace: str) -> dict[str, str]:
    def bound() -> dict[str, str]:
        data: dict[str, str] = cluster.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/group-a")[
            "data"
        ]
        assert data.get("status") == "Bound", data
        return data

    return eventually(bound, WAIT)


def start(cluster: Cluster, prefix: str) -> str:
    namespace = cluster.namespace(prefix)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=GROUP)
    cluster.kubectl("create", "-n", namespace, "-f", "-", input=JOB)
    return namespace


def test_the_seeds_job_is_placed_and_every_pod_knows_its_rank(cluster_of_six: Cluster) -> None:
    cluster = cluster_of_six
    namespace = start(cluster, "seed")
    pods = await_placed(cluster, namespace)
    assert sorted(Counter(pod["spec"]["nodeName"] for pod in pods).values()) == [2, 3, 3]
    assert len({int(pod["spec"]["nodeName"][-1]) // 3 for pod in pods}) == 1

    labels = [pod["metadata"]["labels"] for pod in pods]
    assert sorted(label["sakkara.member.rank"] for label in labels) == list("01234567")
    assert {label["sakkara.member.status"] for label in labels} == {"Bound"}
    assert all(int(label["sakkara.member.retries"]) >= 1 for label in labels)

    data = results(cluster, namespace)
    ranks = {pod["metadata"]["name"]: pod["metadata"]["labels"]["sakkara.member.rank"] for pod in pods}
    in_order = sorted(ranks, key=lambda name: int(ranks[name]))
    assert data["rank"] == "[" + " ".join(f"({name},{ranks[name]})" for name in in_order) + "]"
    (racks,) = json.loads(data["placement"]).values()
    ((_, nodes),) = racks.items()
    assert {pod: node for node, members in nodes.items() for pod in members} == {
        pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods
    }
    assert data["size"] == "8"
    for field in ("schedBeginTime", "schedEndTime", "schedSolverTimeMilli", "schedTotalTimeMilli"):
        assert data[field]
    assert data["optimal"] == "true"

    lines = cluster.kubectl(
        "podgroup", "rank", "group-a", "-n", namespace, "--no-headers"
    ).stdout.splitlines()
    assert [line.split()[1] for line in lines] == in_order
    assert [line.split()[4] for line in lines][:4] == ["0", "2", "2", "4"]


def test_no_pod_is_ever_seen_with_a_node_and_without_its_rank(cluster_of_six: Cluster) -> None:
    cluster = cluster_of_six
    since = cluster.request("GET", "/api/v1/pods")["metadata"]["resourceVersion"]
    namespace = start(cluster, "order")
    placed = await_placed(cluster, namespace)
    now = {(pod["metadata"]["name"], pod["metadata"]["resourceVersion"]) for pod in placed}
    seen: set[tuple[str, str]] = set()
    with cluster.client() as api:
        pods = client.CoreV1Api(api).list_namespaced_pod
        watching: Any = watch.Watch()  # type: ignore[no-untyped-call]
        history = watching.stream(pods, namespace, resource_version=since, timeout_seconds=60)
        for event in history:
            pod = event["object"]
            if pod.spec.node_name:
                assert "sakkara.member.rank" in (pod.metadata.labels or {})
            seen.add((pod.metadata.name, pod.metadata.resource_version))
            if now <= seen:
                break
    assert now <= seen


def test_a_replacement_keeps_the_others_and_takes_the_free_rank(cluster_of_six: Cluster) -> None:
    cluster = cluster_of_six
    namespace = start(cluster, "again")
    pods = await_placed(cluster, namespace)
    results(cluster, namespace)
    gone = pods[3]
    cluster.kubectl("delete", "pod", gone["metadata"]["name"], "-n", namespace, "--grace-period=0", "--force")

    def replaced() -> list[dict[str, Any]]:
        found = pods_of(cluster, namespace)
        names = {pod["metadata"]["name"] for pod in found if pod["spec"].get("nodeName")}
        assert len(names) == 8
        assert gone["metadata"]["name"] not in names
        return found

    after = eventually(replaced, WAIT)
    before = {pod["metadata"]["name"]: pod for pod in pods}
    (new,) = (pod for pod in after if pod["metadata"]["name"] not in before)
    label = "sakkara.member.rank"
    assert new["metadata"]["labels"][label] == gone["metadata"]["labels"][label]
    assert new["spec"]["nodeName"] == gone["spec"]["nodeName"]


def test_pods_wait_until_their_group_is_created(cluster_of_six: Cluster) -> None:
    cluster = cluster_of_six
    namespace = cluster.namespace("late")
    cluster.kubectl("create", "-n", namespace, "-f", "-", input=JOB)

    def told() -> bool:
        said = cluster.kubectl("get", "events", "-n", namespace, "-o", "json").stdout
        assert "group ConfigMap" in said
        assert "does not exist" in said
        return True

    eventually(told, WAIT)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=GROUP)
    await_placed(cluster, namespace)
