"""Gangs through the scheduler's process: all or nothing, what is told, and the status that kubectl shows."""

from __future__ import annotations

import subprocess
import sys
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

WAIT = 30.0
ANNOTATION = "scheduling.k8s.io/group-name"
LIFECYCLE = "muster.dev/lifecycle-policy"


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


def create_group(cluster: Cluster, namespace: str, minimum: int, name: str = "g", **annotations: str) -> None:
    version = "incubator.scheduling.k8s.io/v1alpha1"
    body = {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"minMembers": minimum},
    }
    cluster.request("POST", f"/apis/{version}/namespaces/{namespace}/podgroups", body)


def create_members(cluster: Cluster, namespace: str, *names: str, group: str = "g", **spec: Any) -> None:
    for name in names:
        container = {
            "name": "main",
            "image": "example.com/app:1",
            "resources": {"requests": {"cpu": "1"}},
        }
        body = {
            "metadata": {"name": name, "annotations": {ANNOTATION: group}},
            "spec": {
                "schedulerName": "muster-scheduler",
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def await_refused(cluster: Cluster, namespace: str, name: str, text: str) -> None:
    def refused() -> bool:
        found = scheduled_condition(cluster, namespace, name)
        return found.get("status") == "False" and text in found.get("message", "")

    eventually(refused, WAIT)


def await_bound(cluster: Cluster, namespace: str, *names: str) -> None:
    eventually(lambda: set(bound(cluster, namespace)) == set(names), WAIT)


def set_phase(cluster: Cluster, namespace: str, name: str, phase: str) -> None:
    """What a kubelet would report."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    cluster.request("PATCH", path, {"status": {"phase": phase}})


def columns(cluster: Cluster, namespace: str) -> list[str]:
    return cluster.kubectl("get", "pg", "g", "-n", namespace, "--no-headers").stdout.split()


def told(cluster: Cluster, namespace: str, kind: str) -> list[dict[str, Any]]:
    found = events(cluster, namespace, "Unschedulable")
    return [event for event in found if event["regarding"]["kind"] == kind]


@pytest.mark.smoke
def test_a_gang_that_does_not_fit_binds_nobody_and_all_when_a_node_comes(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "2")
    create_group(cluster, namespace, 3)
    create_members(cluster, namespace, "a", "b", "c")
    await_refused(cluster, namespace, "a", "of the 3 pods that must start together find a node")
    assert bound(cluster, namespace) == {}
    eventually(lambda: "Pending" in columns(cluster, namespace), WAIT)
    create_node(cluster, "two", "2")
    await_bound(cluster, namespace, "a", "b", "c")
    for name in ("a", "b", "c"):
        set_phase(cluster, namespace, name, "Running")
    eventually(lambda: {"g", "Running", "3"} <= set(columns(cluster, namespace)), WAIT)


def test_a_gang_starts_on_what_an_autoscaler_adds_for_its_members(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    """An autoscaler looks at PodScheduled=False/Unschedulable without a nominated node, pod by pod."""
    namespace = cluster.namespace()
    create_node(cluster, "one", "2")
    create_group(cluster, namespace, 5)
    names = ("a", "b", "c", "d", "e")
    create_members(cluster, namespace, *names)
    for name in names:
        await_refused(cluster, namespace, name, "only 2 of the 5 pods that must start together find a node")
    pods = [get_pod(cluster, namespace, name) for name in names]
    seen = [
        pod["metadata"]["name"]
        for pod in pods
        if not pod["status"].get("nominatedNodeName")
        and any(
            (item["type"], item["status"], item["reason"]) == ("PodScheduled", "False", "Unschedulable")
            for item in pod["status"]["conditions"]
        )
    ]
    assert seen == [*names], "every member counts, also those that would find a node"
    # Of the five two fit what is there; nodes of two CPUs are added for the three that do not.
    for number in range((len(seen) - 2 + 1) // 2):
        create_node(cluster, f"added-{number}", "2")
    await_bound(cluster, namespace, *names)


def test_too_few_pods_are_told_to_the_pods_and_the_group(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "8")
    create_group(cluster, namespace, 3)
    create_members(cluster, namespace, "a", "b")
    await_refused(cluster, namespace, "a", "needs minMembers 3")
    eventually(lambda: {e["regarding"]["name"] for e in told(cluster, namespace, "Pod")} == {"a", "b"}, WAIT)

    def noted() -> bool:
        notes = [event["note"] for event in told(cluster, namespace, "PodGroup")]
        return any("2 pods wait" in note or "1 pod waits" in note for note in notes)

    eventually(noted, WAIT)
    create_members(cluster, namespace, "c")
    await_bound(cluster, namespace, "a", "b", "c")


def test_pods_wait_for_their_group(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "8")
    create_members(cluster, namespace, "a")
    await_refused(cluster, namespace, "a", f"PodGroup {namespace}/g does not exist")
    create_group(cluster, namespace, 1)
    await_bound(cluster, namespace, "a")


def test_a_cluster_without_the_other_dialects_is_no_obstacle(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    groups = {group["name"] for group in cluster.request("GET", "/apis")["groups"]}
    resources = cluster.request("GET", "/apis/scheduling.x-k8s.io/v1alpha1")["resources"]
    assert "incubator.scheduling.k8s.io" in groups
    assert "podgroups" not in {item["name"] for item in resources}
    assert running.page("/readyz")[0] == 200


def test_a_new_process_completes_what_another_began(cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "3")
    create_group(cluster, namespace, 3)
    create_members(cluster, namespace, "a", "b", "c")
    for name in ("a", "b"):
        target = {"apiVersion": "v1", "kind": "Node", "name": "one"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)
    with scheduler(cluster, tmp_path):
        await_bound(cluster, namespace, "a", "b", "c")


def test_restart_evicts_what_is_left_of_a_gang(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "3")
    create_group(cluster, namespace, 3, **{LIFECYCLE: "restart"})
    create_members(cluster, namespace, "a", "b", "c")
    await_bound(cluster, namespace, "a", "b", "c")
    for name in ("a", "b"):
        set_phase(cluster, namespace, name, "Running")
    set_phase(cluster, namespace, "c", "Failed")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    eventually(lambda: [p["metadata"]["name"] for p in cluster.request("GET", pods)["items"]] == ["c"], WAIT)

    def noted() -> bool:
        notes = [event["note"] for event in told(cluster, namespace, "PodGroup")]
        assert any("fell below minMembers 3" in note for note in notes), notes
        return True

    eventually(noted, WAIT)
    create_members(cluster, namespace, "d", "e", "f")
    eventually(lambda: {"d", "e", "f"} <= set(bound(cluster, namespace)), WAIT)


def test_two_gangs_with_room_for_one_run_one_after_the_other(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "3")
    for name in ("g", "h"):
        create_group(cluster, namespace, 3, name)
    for number in range(3):
        for name in ("g", "h"):
            create_members(cluster, namespace, f"{name}{number}", group=name)
    eventually(lambda: len(bound(cluster, namespace)) == 3, WAIT)
    (first,) = {name[0] for name in bound(cluster, namespace)}
    for number in range(3):
        cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{first}{number}")
    second = "h" if first == "g" else "g"
    eventually(lambda: set(bound(cluster, namespace)) == {f"{second}{n}" for n in range(3)}, WAIT)


def test_nodes_are_kept_for_a_gang_and_short_pods_are_backfilled(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "3")
    create_members(cluster, namespace, "before", group="", activeDeadlineSeconds=3600)
    await_bound(cluster, namespace, "before")
    create_group(cluster, namespace, 3)
    create_members(cluster, namespace, "a", "b", "c")
    await_refused(cluster, namespace, "a", "only 2 of the 3 pods that must start together find a node")
    create_members(cluster, namespace, "long", group="")
    await_refused(cluster, namespace, "long", "nominated")
    create_members(cluster, namespace, "short", group="", activeDeadlineSeconds=600)
    await_bound(cluster, namespace, "before", "short")
    for name in ("before", "short"):
        cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
    await_bound(cluster, namespace, "a", "b", "c")


def test_kubectl_shows_why_a_gang_waits_and_every_change(
    cluster: Cluster, running: SchedulerProcess, tmp_path: Path
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "2")
    create_group(cluster, namespace, 3)
    create_members(cluster, namespace, "a", "b", "c")
    await_refused(cluster, namespace, "a", "1 pod short: it needs 1 cpu")
    short = "only 2 of the 3 pods that must start together find a node: 1 pod short: it needs 1 cpu"

    def explained() -> bool:
        said = cluster.kubectl("podgroup", "status", "g", "-n", namespace).stdout
        assert "needs 3: 0 have a node, 3 wait" in said
        assert short in said
        return True

    # The pods say it before their group does.
    eventually(explained, WAIT)
    program = str(Path(sys.executable).parent / "kubectl-podgroup")
    plugin = [program, "status", "-w", "--no-headers"]
    flags = ["-n", namespace, "--kubeconfig", str(cluster.kubeconfig)]
    printed = tmp_path / "rows"
    with printed.open("w") as output:
        process = subprocess.Popen([*plugin, *flags], stdout=output)
    try:
        eventually(lambda: "Pending" in printed.read_text(), WAIT)
        create_node(cluster, "two", "1")
        await_bound(cluster, namespace, "a", "b", "c")
        eventually(lambda: "Scheduled" in printed.read_text() or "Running" in printed.read_text(), WAIT)
    finally:
        process.terminate()
        process.wait(60)


def test_a_gang_that_is_being_bound_is_never_called_unschedulable(cluster: Cluster, tmp_path: Path) -> None:
    """36 bindings at a few each second, beside statuses: what both say meanwhile is of that moment."""
    namespace = cluster.namespace()
    names = [f"m-{number}" for number in range(36)]
    create_group(cluster, namespace, len(names))
    create_members(cluster, namespace, *names)
    path = f"/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{namespace}/podgroups/g"
    written, shown = set(), set()

    def phase() -> str:
        written.add(cluster.request("GET", path).get("status", {}).get("phase", ""))
        row = cluster.kubectl("podgroup", "status", "-n", namespace, "--no-headers").stdout
        shown.add(row.split()[2])
        return row.split()[2]

    with scheduler(cluster, tmp_path, "--kube-api-qps=4", "--kube-api-burst=4") as process:
        await_refused(cluster, namespace, names[0], "")
        eventually(lambda: phase() == "Pending", WAIT)
        create_node(cluster, "wide", "40")
        # Nine seconds of bindings are seen often enough: each look is a kubectl and a plugin.
        eventually(lambda: phase() == "Scheduled" and "Scheduled" in written, WAIT, interval=0.5)
        assert process.end() == 0, process.said()
    assert "Scheduling" in shown
    assert (written | shown) - {""} <= {"Pending", "Scheduling", "Scheduled"}
