"""Trees of groups (CompositePodGroup) through the scheduler's process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.native_groups import (
    create_native_group,
    create_native_members,
    group_condition,
    scheduled_type,
    version_of,
)
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually

WAIT = 40.0
PLUGINS = ("CapacityScheduling", "Coscheduling")


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """A scheduler that schedules trees of groups."""
    profile = {
        "schedulerName": "muster-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in PLUGINS]}},
        "pluginConfig": [{"name": "Coscheduling", "args": {"compositePodGroups": True}}],
    }
    config = tmp_path / "config.yaml"
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    client = {"kubeconfig": str(cluster.kubeconfig), "qps": 1000, "burst": 1000}
    config.write_text(yaml.safe_dump({**body, "clientConnection": client, "profiles": [profile]}))
    with scheduler(cluster, tmp_path, f"--config={config}") as process:
        yield process
        assert process.end() == 0, process.said()


def serves_trees(cluster: Cluster) -> bool:
    """Whether the server has CompositePodGroups: Kubernetes 1.36 has not."""
    return version_of(cluster) != "v1alpha2"


def create_tree(cluster: Cluster, namespace: str, groups: int) -> None:
    """A CompositePodGroup `job` that needs so many child groups."""
    spec: dict[str, Any] = {
        "schedulingPolicy": {"gang": {"minGroupCount": groups}},
        "workloadRef": {"workloadName": "job", "templateName": "job"},
    }
    path = f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{namespace}/compositepodgroups"
    cluster.request("POST", path, {"metadata": {"name": "job"}, "spec": spec})


def test_a_tree_starts_whole_or_not_at_all(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    if not serves_trees(cluster):
        # The kind is asked for and not served: all other groups start as before.
        create_node(cluster, "n-1", cpu="2")
        create_native_group(cluster, namespace, 2)
        create_native_members(cluster, namespace, "a", "b")
        eventually(lambda: set(bound(cluster, namespace)) == {"a", "b"}, WAIT)
        return
    create_node(cluster, "n-1", cpu="3")
    create_tree(cluster, namespace, 2)
    for name in ("one", "two"):
        origin = {"workloadName": "job", "templateName": name}
        create_native_group(
            cluster, namespace, 2, name, parentCompositePodGroupName="job", workloadRef=origin
        )
        create_native_members(cluster, namespace, f"{name}-a", f"{name}-b", group=name)
    names = {"one-a", "one-b", "two-a", "two-b"}

    def told() -> bool:
        found = [scheduled_condition(cluster, namespace, name) for name in sorted(names)]
        return all(item.get("status") == "False" and item.get("message") for item in found)

    eventually(told, WAIT)
    assert bound(cluster, namespace) == {}
    create_node(cluster, "n-2", cpu="1")
    eventually(lambda: set(bound(cluster, namespace)) == names, WAIT)
    for name in ("one", "two"):
        eventually(
            lambda name=name: (
                group_condition(cluster, namespace, scheduled_type(cluster), name).get("status") == "True"
            ),
            WAIT,
        )
