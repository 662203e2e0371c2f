"""Groups on the topology through the scheduler's process, on any API server.

No server here has a Job controller: the pods of the seed's Job, which real kubectl creates, are made from its
template by the test.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    events,
    get_pod,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually
from tests.support.sakkara import CONFIG, GROUP, JOB, TOPOLOGY

WAIT = 30.0
pytestmark = pytest.mark.usefixtures("running")
SAKKARA = "sakkara"
RESULTS = "muster.dev/topology-results"
CONSTRAINTS = "muster.dev/topology-constraints"
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1"


@pytest.fixture
def home(cluster: Cluster) -> str:
    """The namespace of the topology ConfigMap: the seed's two racks of three nodes."""
    namespace = cluster.namespace("sakkara")
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=TOPOLOGY)
    return namespace


@pytest.fixture
def running(cluster: Cluster, home: str, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """The six nodes, and a scheduler named sakkara that reads the topology of this test."""
    for index in range(6):
        create_node(cluster, f"node-{index}")
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(kubeconfig=cluster.kubeconfig, namespace=home))
    with scheduler(cluster, tmp_path, f"--config={config}") as process:
        yield process
        assert process.end() == 0, process.said()


def start_job(cluster: Cluster, namespace: str) -> list[str]:
    """Create the Job, and its pods as a Job controller would; their names."""
    made = cluster.kubectl("create", "-n", namespace, "-f", "-", "-o", "json", input=JOB).stdout
    job = json.loads(made)
    names = [f"{job['metadata']['name']}-{index}" for index in range(job["spec"]["parallelism"])]
    for name in names:
        template = job["spec"]["template"]
        meta = {"name": name, "labels": template["metadata"]["labels"]}
        body = {"metadata": meta, "spec": template["spec"] | {"terminationGracePeriodSeconds": 0}}
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    return names


def create_member(cluster: Cluster, namespace: str, name: str, cpu: str = "1", **meta: Any) -> None:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": SAKKARA, "terminationGracePeriodSeconds": 0, "containers": [container]}
    body = {"metadata": {"name": name, **meta}, "spec": spec}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def group_data(cluster: Cluster, namespace: str) -> dict[str, str]:
    found: dict[str, str] = cluster.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/group-a")[
        "data"
    ]
    return found


def pod_group(cluster: Cluster, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.request("GET", f"{GROUPS}/namespaces/{namespace}/podgroups/g")
    return found


def create_pod_group(cluster: Cluster, namespace: str, members: int, constraints: dict[str, Any]) -> None:
    body = {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "annotations": {CONSTRAINTS: json.dumps(constraints)}},
        "spec": {"minMembers": members},
    }
    cluster.request("POST", f"{GROUPS}/namespaces/{namespace}/podgroups", body)


def results_of(cluster: Cluster, namespace: str, status: str) -> dict[str, Any]:
    """The results on the PodGroup, once they have that status."""

    def written() -> dict[str, Any]:
        notes = pod_group(cluster, namespace)["metadata"]["annotations"]
        found: dict[str, Any] = json.loads(notes.get(RESULTS, "{}"))
        assert found.get("status") == status, found
        return found

    return eventually(written, WAIT)


@pytest.mark.smoke
def test_the_seeds_job_is_placed_and_every_pod_knows_its_rank(cluster: Cluster, home: str) -> None:
    namespace = cluster.namespace()
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=GROUP)
    pods = start_job(cluster, namespace)
    nodes = eventually(lambda: found if len(found := bound(cluster, namespace)) == 8 else None, WAIT)
    assert sorted(Counter(nodes.values()).values()) == [2, 3, 3]
    assert len({int(node[-1]) // 3 for node in nodes.values()}) == 1

    labels = {name: get_pod(cluster, namespace, name)["metadata"]["labels"] for name in pods}
    ranks = {name: label["sakkara.member.rank"] for name, label in labels.items()}
    assert sorted(ranks.values()) == list("01234567")
    assert {label["sakkara.member.status"] for label in labels.values()} == {"Bound"}

    def written() -> dict[str, str]:
        data = group_data(cluster, namespace)
        assert data.get("status") == "Bound", data
        return data

    data = eventually(written, WAIT)
    in_order = sorted(ranks, key=lambda name: int(ranks[name]))
    assert data["rank"] == "[" + " ".join(f"({name},{ranks[name]})" for name in in_order) + "]"
    (racks,) = json.loads(data["placement"]).values()
    ((_, units),) = racks.items()
    assert {pod: node for node, members in units.items() for pod in members} == nodes
    assert (data["size"], data["optimal"]) == ("8", "true")
    assert data["hopCost"] == data["bestHopCost"]
    shown = ("--no-headers", "--topology-namespace", home)
    table = cluster.kubectl("podgroup", "rank", "group-a", "-n", namespace, *shown).stdout
    assert [line.split()[1] for line in table.splitlines()] == in_order


def test_a_pod_group_carries_its_results(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    create_pod_group(cluster, namespace, 4, {"rack": {"type": "spread", "partitions": 2}})
    for index in range(4):
        annotations = {"scheduling.k8s.io/group-name": "g"}
        create_member(cluster, namespace, f"g-{index}", annotations=annotations)
    found = results_of(cluster, namespace, "Bound")
    nodes = bound(cluster, namespace)
    assert sorted(Counter(int(node[-1]) // 3 for node in nodes.values()).values()) == [2, 2]
    placed = {
        pod: node
        for rack in found["placement"]["root"].values()
        for node, members in rack.items()
        for pod in members
    }
    assert placed == nodes
    assert found["rank"].startswith("[(g-0,0) ")
    assert found["optimal"] == "true"
    assert {"schedBeginTime", "schedEndTime", "schedTotalTimeMilli", "hopCost"} <= set(found)

    # The object moves on beside the annotation: neither writer undoes the other.
    cluster.kubectl("annotate", "pg", "g", "-n", namespace, "owner=someone")
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/g-3")
    assert results_of(cluster, namespace, "Pending")["schedEndTime"] == found["schedEndTime"]

    def told() -> bool:
        status = pod_group(cluster, namespace)["status"]
        return (status["admitted"], status["phase"]) == (3, "Unschedulable")

    eventually(told, WAIT)
    assert pod_group(cluster, namespace)["metadata"]["annotations"]["owner"] == "someone"


def test_a_constraint_that_names_no_level_is_told_and_heals(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    create_pod_group(cluster, namespace, 1, {"row": {"type": "pack"}})
    create_member(cluster, namespace, "g-0", annotations={"scheduling.k8s.io/group-name": "g"})
    found = results_of(cluster, namespace, "Pending")
    assert "row: is not a level of the topology; its levels are rack, node" in found["reason"]
    eventually(lambda: found["reason"] == scheduled_condition(cluster, namespace, "g-0")["message"], WAIT)
    text = f'{CONSTRAINTS}={{"rack": {{"type": "pack"}}}}'
    cluster.kubectl("annotate", "--overwrite", "pg", "g", "-n", namespace, text)
    assert "reason" not in results_of(cluster, namespace, "Bound")


def test_a_faulty_topology_is_told_and_the_old_tree_stays(cluster: Cluster, home: str) -> None:
    broken = TOPOLOGY.replace('"node-5": {}', '"node-0": {}')
    cluster.kubectl("apply", "-n", home, "-f", "-", input=broken)
    (event,) = eventually(lambda: events(cluster, home, "InvalidTopology"), WAIT)
    assert "node node-0 is already at rack-0.node-0" in event["note"]
    namespace = cluster.namespace()
    create_pod_group(cluster, namespace, 6, {"rack": {"partitions": 2}, "node": {"type": "spread"}})
    for index in range(6):
        annotations = {"scheduling.k8s.io/group-name": "g"}
        create_member(cluster, namespace, f"g-{index}", annotations=annotations)
    results_of(cluster, namespace, "Bound")
    assert "node-5" in bound(cluster, namespace).values()


def test_a_group_of_higher_priority_takes_the_place_of_a_whole_group(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    for name, priority in (("low", "1"), ("high", "5")):
        meta = {"name": name, "labels": {"sakkara.group": ""}}
        data = {"name": name, "size": "2", "priority": priority, "constraints": '{"node": {"hard": true}}'}
        body = {"metadata": meta, "data": data}
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    for index in range(6):
        create_member(cluster, namespace, f"single-{index}", cpu="3")
    eventually(lambda: len(bound(cluster, namespace)) == 6, WAIT)
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/single-0")
    labels = {"sakkara.group.name": "low"}
    for index in range(2):
        create_member(cluster, namespace, f"low-{index}", cpu="2", labels=labels)
    eventually(lambda: {"low-0", "low-1"} <= set(bound(cluster, namespace)), WAIT)
    node = bound(cluster, namespace)["low-0"]
    for index in range(2):
        create_member(cluster, namespace, f"high-{index}", cpu="2", labels={"sakkara.group.name": "high"})

    def taken() -> bool:
        nodes = bound(cluster, namespace)
        assert {nodes.get("high-0"), nodes.get("high-1")} == {node}
        assert not {"low-0", "low-1"} & set(nodes)
        assert {f"single-{index}" for index in range(1, 6)} <= set(nodes)
        return True

    eventually(taken, WAIT)
