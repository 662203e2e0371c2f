"""What is written to native groups by the scheduler's process, as servers validate it, and when it ends."""

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
    path_of,
    scheduled_type,
)
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    await_quota,
    bound,
    create_node,
    create_pod,
    create_priority_class,
    create_quota,
    node_of,
    scheduler,
)
from tests.support.eventually import eventually

pytestmark = pytest.mark.told_by("tests/e2e/scheduler/test_native_groups.py")

WAIT = 40.0
ZONE = "topology.kubernetes.io/zone"
PLUGINS = ("CapacityScheduling", "Coscheduling")
TOPOLOGY = "ClusterTopologyPlacementGroup"
RESULTS = "muster.dev/topology-results"


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """A scheduler with the built-in profile, and one named `flat` that places no group on the topology."""
    enabled = [{"name": name} for name in PLUGINS]
    profiles = [
        {
            "schedulerName": "muster-scheduler",
            "plugins": {"multiPoint": {"enabled": [*enabled, {"name": TOPOLOGY}]}},
        },
        {
            "schedulerName": "flat",
            "plugins": {"multiPoint": {"enabled": enabled, "disabled": [{"name": TOPOLOGY}]}},
        },
    ]
    config = tmp_path / "config.yaml"
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    client = {"kubeconfig": str(cluster.kubeconfig), "qps": 1000, "burst": 1000}
    config.write_text(yaml.safe_dump({**body, "clientConnection": client, "profiles": profiles}))
    with scheduler(cluster, tmp_path, f"--config={config}") as process:
        yield process
        assert process.end() == 0, process.said()


def said(cluster: Cluster, namespace: str, type_: str, name: str = "g") -> tuple[str, str]:
    """Status and reason of a condition; empty where it is not set."""
    found = group_condition(cluster, namespace, type_, name)
    return found.get("status", ""), found.get("reason", "")


def await_said(cluster: Cluster, namespace: str, type_: str, *wanted: str, name: str = "g") -> None:
    eventually(lambda: said(cluster, namespace, type_, name) == wanted, WAIT)


def await_bound(cluster: Cluster, namespace: str, *names: str) -> None:
    eventually(lambda: set(bound(cluster, namespace)) == set(names), WAIT)


def group(cluster: Cluster, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.request("GET", path_of(cluster, namespace, "g"))
    return found


@pytest.mark.parametrize("topology", ["", ZONE], ids=["anywhere", "one zone"])
def test_a_group_that_started_is_not_written_again(
    cluster: Cluster, running: SchedulerProcess, topology: str
) -> None:
    """Other groups come, start and wait meanwhile: all of that is told, and nothing to the first one."""
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="8", labels={ZONE: "z-1"})
    create_native_group(cluster, namespace, 2, topology=topology)
    create_native_members(cluster, namespace, "a", "b")
    await_said(cluster, namespace, scheduled_type(cluster), "True", "Scheduled")
    await_bound(cluster, namespace, "a", "b")

    def another(name: str, cpu: str, *wanted: str) -> None:
        other = cluster.namespace()
        create_native_group(cluster, other, 2, name, topology=topology)
        create_native_members(cluster, other, "x", "y", group=name, cpu=cpu)
        await_said(cluster, other, scheduled_type(cluster), *wanted, name=name)

    if topology:
        # What is written within a second of another write comes later: here where the group was placed.
        eventually(lambda: RESULTS in group(cluster, namespace)["metadata"].get("annotations", {}), WAIT)
    another("next", "1", "True", "Scheduled")
    another("wide", "100", "False", "Unschedulable")
    settled = group(cluster, namespace)
    another("third", "1", "True", "Scheduled")
    another("broad", "100", "False", "Unschedulable")
    assert group(cluster, namespace) == settled


def test_conditions_of_others_stay_and_a_start_is_final(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    theirs = {
        "type": "Theirs",
        "status": "Unknown",
        "reason": "NotYet",
        "message": "",
        "observedGeneration": 1,
    }
    theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    create_native_group(cluster, namespace, 2)
    cluster.request("PATCH", path_of(cluster, namespace, "g", "status"), {"status": {"conditions": [theirs]}})
    create_native_members(cluster, namespace, "a", "b")
    await_said(cluster, namespace, scheduled_type(cluster), "False", "Unschedulable")
    create_node(cluster, "n-1", cpu="2")
    await_said(cluster, namespace, scheduled_type(cluster), "True", "Scheduled")
    create_native_members(cluster, namespace, "c")
    create_pod(cluster, namespace, "probe", cpu="9")
    await_bound(cluster, namespace, "a", "b")
    assert said(cluster, namespace, scheduled_type(cluster)) == ("True", "Scheduled")
    assert group_condition(cluster, namespace, "Theirs") == theirs


def test_a_preempted_group_has_the_condition_of_its_pods(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_priority_class(cluster, f"{namespace}-strong", 1000)
    create_node(cluster, "n-1", cpu="2")
    create_native_group(cluster, namespace, 2, mode="all")
    create_native_members(cluster, namespace, "a", "b")
    await_bound(cluster, namespace, "a", "b")
    create_pod(cluster, namespace, "strong", priorityClassName=f"{namespace}-strong")
    eventually(lambda: node_of(cluster, namespace, "strong") == "n-1", WAIT)
    await_said(cluster, namespace, "DisruptionTarget", "True", "PreemptionByScheduler")
    assert "strong" in group_condition(cluster, namespace, "DisruptionTarget")["message"]
    assert said(cluster, namespace, scheduled_type(cluster)) == ("True", "Scheduled")


def test_a_constraint_that_nobody_enforces_holds_the_group(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="8", labels={ZONE: "z-1"})
    create_native_group(cluster, namespace, 2, topology=ZONE)
    create_native_members(cluster, namespace, "a", "b", schedulerName="flat")
    await_said(cluster, namespace, "TopologyNotEnforced", "True", "NoPlugin")
    await_said(cluster, namespace, scheduled_type(cluster), "False", "Unschedulable")
    assert bound(cluster, namespace) == {}
    for name in ("a", "b"):
        cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})
    create_native_members(cluster, namespace, "c", "d")
    await_bound(cluster, namespace, "c", "d")
    await_said(cluster, namespace, "TopologyNotEnforced", "False", "PlacedTogether")


def test_a_lost_member_is_replaced_in_the_domain_of_the_others(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="2", labels={ZONE: "z-1"})
    create_native_group(cluster, namespace, 2, topology=ZONE)
    create_native_members(cluster, namespace, "a", "b")
    await_bound(cluster, namespace, "a", "b")
    running_now = {"status": {"phase": "Running"}}
    cluster.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/a/status", running_now)
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/b", {"gracePeriodSeconds": 0})
    create_pod(cluster, namespace, "filler")
    eventually(lambda: node_of(cluster, namespace, "filler") == "n-1", WAIT)
    create_node(cluster, "n-2", cpu="2", labels={ZONE: "z-2"})
    create_native_members(cluster, namespace, "c")
    await_said(cluster, namespace, "Repair", "True", "WaitsForDomain")
    assert "c" not in bound(cluster, namespace)
    create_node(cluster, "n-3", cpu="2", labels={ZONE: "z-1"})
    eventually(lambda: node_of(cluster, namespace, "c") == "n-3", WAIT)
    await_said(cluster, namespace, "Repair", "False", "ReplacedInDomain")


def test_a_waiting_group_holds_quota_and_says_so(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="8")
    create_quota(cluster, namespace, {"cpu": "3"}, {"cpu": "3"})
    await_quota(cluster, namespace)
    create_pod(cluster, namespace, "first")
    await_bound(cluster, namespace, "first")
    create_native_group(cluster, namespace, 3)
    hold = {"metadata": {"annotations": {"muster.dev/hold-quota": "10m"}}}
    cluster.request("PATCH", path_of(cluster, namespace, "g"), hold)
    create_native_members(cluster, namespace, "a", "b", "c")
    await_said(cluster, namespace, "QuotaHeld", "True", "WaitsToStart")
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/first", {"gracePeriodSeconds": 0})
    await_bound(cluster, namespace, "a", "b", "c")
    await_said(cluster, namespace, "QuotaHeld", "False", "NothingHeld")
    await_said(cluster, namespace, scheduled_type(cluster), "True", "Scheduled")
