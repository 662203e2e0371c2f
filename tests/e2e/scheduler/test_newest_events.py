"""What `kubectl describe` shows: newest event and condition give the same reason, also after changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    await_node,
    bound,
    create_node,
    create_pod,
    create_quota,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually

pytestmark = pytest.mark.told_by("tests/e2e/scheduler/test_scheduler.py")

WAIT = 40.0
# An event with another reason is posted at once; only other figures wait for half a minute.
SOON = 25.0


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


def last_seen(event: dict[str, Any]) -> str:
    return str((event.get("series") or {}).get("lastObservedTime") or event["eventTime"])


def newest_note(cluster: Cluster, namespace: str, kind: str, name: str) -> str:
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    mine = [
        event
        for event in cluster.request("GET", path)["items"]
        if (event["regarding"]["kind"], event["regarding"]["name"]) == (kind, name)
    ]
    return str(max(mine, key=last_seen)["note"]) if mine else ""


def await_agreement(cluster: Cluster, namespace: str, name: str, text: str, *groups: str) -> None:
    """The pod's condition has this text, and so have the newest events of the pod and its groups."""

    def agreed() -> bool:
        message = scheduled_condition(cluster, namespace, name).get("message", "")
        assert text in message, message
        notes = [newest_note(cluster, namespace, "Pod", name)]
        notes += [newest_note(cluster, namespace, "PodGroup", group) for group in groups]
        assert notes == [message] * len(notes), (message, notes)
        return True

    eventually(agreed, SOON)


def set_quota(cluster: Cluster, namespace: str, cpu: str) -> None:
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas/quota"
    cluster.request("PATCH", path, {"spec": {"min": {"cpu": cpu}, "max": {"cpu": cpu}}})


def test_another_reason_within_seconds_is_told_by_event_and_condition(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_quota(cluster, namespace, {"cpu": "64"}, {"cpu": "64"})
    create_node(cluster, "one", "2")
    # A node that comes after its pod, by a watch of its own, is one more reason, and of the events of one pod
    # more than three in a row have to wait.
    await_node(running, "one")
    create_pod(cluster, namespace, "p", cpu="4")
    await_agreement(cluster, namespace, "p", "Insufficient cpu")
    set_quota(cluster, namespace, "3")
    await_agreement(cluster, namespace, "p", "exceeds max")
    set_quota(cluster, namespace, "64")
    await_agreement(cluster, namespace, "p", "Insufficient cpu")


def test_a_group_and_its_pods_tell_the_same_after_the_last_pod_has_come(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "2")
    version = "incubator.scheduling.k8s.io/v1alpha1"
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMembers": 3}}
    cluster.request("POST", f"/apis/{version}/namespaces/{namespace}/podgroups", group)
    in_group = {"scheduling.k8s.io/group-name": "g"}
    for name in ("a", "b"):
        create_pod(cluster, namespace, name, cpu="1", annotations=in_group)
    await_agreement(cluster, namespace, "a", "needs minMembers 3", "g")
    create_pod(cluster, namespace, "c", cpu="1", annotations=in_group)
    await_agreement(cluster, namespace, "a", "find a node", "g")
    create_node(cluster, "two", "2")
    eventually(lambda: set(bound(cluster, namespace)) == {"a", "b", "c"}, WAIT)
