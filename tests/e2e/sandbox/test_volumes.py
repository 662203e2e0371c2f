"""Pods are placed by their volumes, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    create_node,
    create_pod,
    get_pod,
    node_of,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually

pytestmark = pytest.mark.told_by("tests/e2e/sandbox/test_workloads.py")

WAIT = 40.0
ZONE = "topology.kubernetes.io/zone"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """A scheduler on two nodes, of which the one in zone `far` is nearly full and the last choice."""
    create_node(cluster, "near", "16", {ZONE: "near"})
    create_node(cluster, "far", "2", {ZONE: "far"})
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


class Storage:
    """Storage objects of one test, whose cluster-wide names end with its namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace("volumes")
        self.class_name = f"local-{self.namespace}"

    def make_class(self, provisioner: str) -> None:
        body = {
            "metadata": {"name": self.class_name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self.cluster.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)

    def make_volume(self, name: str, zone: str, claim: str = "") -> str:
        """A volume that is reachable in one zone, kept for a claim if one is named; its full name."""
        full = f"{name}-{self.namespace}"
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec: dict[str, Any] = {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.class_name,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        if claim:
            uid = self.claim(claim)["metadata"]["uid"]
            spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": claim}
            spec["claimRef"] |= {"apiVersion": "v1", "uid": uid}
        self.cluster.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": full}, "spec": spec})
        phase = "Bound" if claim else "Available"
        self.cluster.request(
            "PATCH", f"/api/v1/persistentvolumes/{full}/status", {"status": {"phase": phase}}
        )
        return full

    def volume(self, full: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.request("GET", f"/api/v1/persistentvolumes/{full}")
        return found

    def make_claim(self, name: str) -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.class_name,
            "resources": {"requests": {"storage": "5Gi"}},
        }
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        self.cluster.request("POST", path, {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{name}"
        found: dict[str, Any] = self.cluster.request("GET", path)
        return found

    def complete(self, claim: str, volume: str) -> None:
        """What the volume controller does once claim and volume belong together."""
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{claim}"
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        self.cluster.request(
            "PATCH", path, {"metadata": {"annotations": done}, "spec": {"volumeName": volume}}
        )
        self.cluster.request("PATCH", f"{path}/status", {"status": {"phase": "Bound"}})

    def create_pod(self, name: str, claim: str) -> None:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        create_pod(self.cluster, self.namespace, name, volumes=[volume])

    def await_node(self, pod: str) -> str:
        return eventually(lambda: node_of(self.cluster, self.namespace, pod), WAIT)


def test_a_pod_follows_its_bound_claim(cluster: Cluster, running: SchedulerProcess) -> None:
    storage = Storage(cluster)
    storage.make_class(NO_PROVISIONER)
    storage.make_claim("data")
    volume = storage.make_volume("disk", "far", claim="data")
    storage.complete("data", volume)
    storage.create_pod("follows", "data")
    create_pod(cluster, storage.namespace, "free")
    assert storage.await_node("follows") == "far"
    assert storage.await_node("free") == "near"


def test_a_claim_that_waits_for_its_consumer_gets_the_volume_of_the_pods_node(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    storage = Storage(cluster)
    storage.make_class(NO_PROVISIONER)
    volume = storage.make_volume("disk", "far")
    storage.make_claim("data")
    storage.create_pod("consumer", "data")
    assert storage.await_node("consumer") == "far"
    reference = storage.volume(volume)["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == (storage.namespace, "data")
    assert reference["uid"] == storage.claim("data")["metadata"]["uid"]


def test_without_a_volume_the_pod_waits_and_a_new_one_wakes_it(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    storage = Storage(cluster)
    storage.make_class(NO_PROVISIONER)
    storage.make_claim("data")
    storage.create_pod("consumer", "data")

    def refused() -> bool:
        said = scheduled_condition(cluster, storage.namespace, "consumer").get("message", "")
        return "2 node(s) didn't find available persistent volumes to bind" in said

    eventually(refused, WAIT)
    storage.make_volume("disk", "far")
    assert storage.await_node("consumer") == "far"


def test_a_volume_to_be_made_is_asked_for_on_a_node_and_awaited_there(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    storage = Storage(cluster)
    storage.make_class("example.com/disks")
    storage.make_claim("data")
    storage.create_pod("consumer", "data")
    chosen = eventually(
        lambda: storage.claim("data")["metadata"].get("annotations", {}).get(SELECTED_NODE), WAIT
    )
    assert chosen == "near"
    assert "nodeName" not in get_pod(cluster, storage.namespace, "consumer")["spec"]
    storage.complete("data", storage.make_volume("made", "near", claim="data"))
    assert storage.await_node("consumer") == "near"
