"""Kubernetes' own groups through the scheduler's process, on every version of the API that servers serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.api.server import ServerOptions
from sandbox.kinds.builtin import GROUP_VERSIONS, serve_groups
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.native_groups import (
    create_native_group,
    create_native_members,
    group_condition,
    path_of,
    scheduled_type,
    version_of,
)
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    create_pod,
    create_priority_class,
    events,
    node_of,
    scheduled_condition,
    scheduler,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

WAIT = 40.0
ZONE = "topology.kubernetes.io/zone"
FOUR = ("a", "b", "c", "d")


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


def await_bound(cluster: Cluster, namespace: str, *names: str) -> None:
    eventually(lambda: set(bound(cluster, namespace)) == set(names), WAIT)


def await_waiting(cluster: Cluster, namespace: str, *names: str) -> None:
    """Every pod was tried and has a reason."""

    def told() -> bool:
        found = [scheduled_condition(cluster, namespace, name) for name in names]
        return all(item.get("status") == "False" and item.get("message") for item in found)

    eventually(told, WAIT)
    assert bound(cluster, namespace) == {}


@pytest.mark.smoke
def test_a_gang_waits_for_its_minimum_and_starts(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="8")
    create_native_group(cluster, namespace, 3)
    create_native_members(cluster, namespace, "a", "b")
    await_waiting(cluster, namespace, "a", "b")
    create_native_members(cluster, namespace, "c")
    await_bound(cluster, namespace, "a", "b", "c")


def test_pods_wait_for_a_group_that_comes_late(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="8")
    create_native_members(cluster, namespace, "a", "b")
    await_waiting(cluster, namespace, "a", "b")
    create_native_group(cluster, namespace, 2)
    await_bound(cluster, namespace, "a", "b")


def test_a_basic_group_starts_what_fits(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="2")
    create_native_group(cluster, namespace, None)
    create_native_members(cluster, namespace, "a", "b", "c")
    eventually(lambda: len(bound(cluster, namespace)) == 2, WAIT)


def test_a_lower_minimum_starts_the_gang(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="8")
    create_native_group(cluster, namespace, 3)
    create_native_members(cluster, namespace, "a", "b")
    await_waiting(cluster, namespace, "a", "b")
    change = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    if version_of(cluster) == "v1alpha2":
        with pytest.raises(RequestFailed, match="field is immutable"):
            cluster.request("PATCH", path_of(cluster, namespace, "g"), change)
        return
    cluster.request("PATCH", path_of(cluster, namespace, "g"), change)
    await_bound(cluster, namespace, "a", "b")


def test_a_required_zone_holds_the_whole_gang(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    for name, zone in (("n-1", "z-1"), ("n-2", "z-2")):
        create_node(cluster, name, cpu="2", labels={ZONE: zone})
    create_native_group(cluster, namespace, 4, topology=ZONE)
    create_native_members(cluster, namespace, *FOUR)
    await_waiting(cluster, namespace, *FOUR)
    create_node(cluster, "n-3", cpu="4", labels={ZONE: "z-3"})
    await_bound(cluster, namespace, *FOUR)
    assert set(bound(cluster, namespace).values()) == {"n-3"}


@pytest.mark.parametrize(("mode", "minimum", "left"), [("single", 2, 1), ("all", 1, 0)])
def test_an_eviction_takes_what_the_disruption_mode_says(
    cluster: Cluster, running: SchedulerProcess, mode: str, minimum: int, left: int
) -> None:
    namespace = cluster.namespace()
    create_priority_class(cluster, f"{namespace}-strong", 1000)
    create_node(cluster, "n-1", cpu="2")
    create_native_group(cluster, namespace, minimum, mode=mode)
    create_native_members(cluster, namespace, "a", "b")
    await_bound(cluster, namespace, "a", "b")
    create_pod(cluster, namespace, "strong", priorityClassName=f"{namespace}-strong")
    eventually(lambda: node_of(cluster, namespace, "strong") == "n-1", WAIT)
    eventually(lambda: len(set(bound(cluster, namespace)) & {"a", "b"}) == left, WAIT)


def test_members_that_contradict_the_priority_are_told_both(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_priority_class(cluster, f"{namespace}-group", 100)
    create_priority_class(cluster, f"{namespace}-pod", 5)
    create_node(cluster, "n-1", cpu="8")
    create_native_group(cluster, namespace, 2, priorityClassName=f"{namespace}-group")
    create_native_members(cluster, namespace, "a", "b", priorityClassName=f"{namespace}-pod")
    await_waiting(cluster, namespace, "a", "b")

    def told() -> bool:
        # Until the scheduler knows the group, members wait for it.
        message = scheduled_condition(cluster, namespace, "a")["message"]
        assert "100" in message
        assert "5" in message
        return True

    eventually(told, WAIT)
    eventually(
        lambda: (
            group_condition(cluster, namespace, scheduled_type(cluster)).get("reason") == "SchedulerError"
        ),
        WAIT,
    )


def test_the_condition_says_whether_the_group_started(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="1")
    create_native_group(cluster, namespace, 2)
    create_native_members(cluster, namespace, "a", "b")
    type_ = scheduled_type(cluster)

    def said(status: str, reason: str) -> bool:
        found = group_condition(cluster, namespace, type_)
        return (found.get("status"), found.get("reason")) == (status, reason)

    eventually(lambda: said("False", "Unschedulable"), WAIT)
    create_node(cluster, "n-2", cpu="1")
    eventually(lambda: said("True", "Scheduled"), WAIT)


def test_events_about_a_group_name_the_version_of_the_server(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "n-1", cpu="1")
    create_native_group(cluster, namespace, 2)
    create_native_members(cluster, namespace, "a", "b")
    await_waiting(cluster, namespace, "a", "b")

    def regarding() -> set[str]:
        found = events(cluster, namespace, "Unschedulable")
        return {item["regarding"]["apiVersion"] for item in found if item["regarding"]["kind"] == "PodGroup"}

    eventually(lambda: regarding() == {f"scheduling.k8s.io/{version_of(cluster)}"}, WAIT)


def test_a_version_that_comes_late_is_found(kubectl: Path, tmp_path: Path) -> None:
    with SandboxServer(ServerOptions(group_versions=())) as server:
        cluster = Cluster(server, kubectl, "sandbox")

        async def serve() -> None:
            serve_groups(server.api.kinds, GROUP_VERSIONS)

        namespace = cluster.namespace()
        create_node(cluster, "n-1", cpu="8")
        with scheduler(cluster, tmp_path) as process:
            create_native_members(cluster, namespace, "a", "b")
            await_waiting(cluster, namespace, "a", "b")
            server.run(serve())
            create_native_group(cluster, namespace, 2)
            await_bound(cluster, namespace, "a", "b")
            assert process.end() == 0, process.said()
