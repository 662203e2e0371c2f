"""Pods that came past the scheduler: they count, it is said, and their quota is the first to give back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.state.unplaced import PENDING_SECONDS
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    await_quota,
    bound,
    create_node,
    create_pod,
    create_quota,
    events,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually

WAIT = 40.0
LEDGERS = "/apis/muster.dev/v1alpha1/namespaces/{}/reservationledgers"


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


def quota(cluster: Cluster, namespace: str) -> dict[str, Any]:
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas/quota"
    found: dict[str, Any] = cluster.request("GET", path)
    return found


def uses(cluster: Cluster, namespace: str, cpu: str) -> None:
    eventually(lambda: quota(cluster, namespace).get("status", {}).get("used", {}).get("cpu") == cpu, WAIT)


def refused(cluster: Cluster, namespace: str, name: str) -> None:
    eventually(
        lambda: "exceeds max" in scheduled_condition(cluster, namespace, name).get("message", ""), WAIT
    )


def bind(cluster: Cluster, namespace: str, name: str, node: str) -> None:
    """As somebody who may write `pods/binding`."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)


def test_a_pod_that_somebody_else_bound_is_told_counted_and_the_first_to_go(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    """`loud` may use 2 CPUs and gets 4, one by one past the scheduler. `owner` is guaranteed 4 of the 6."""
    loud, lent, owner = cluster.namespace(), cluster.namespace(), cluster.namespace()
    create_node(cluster, "one", "6")
    create_quota(cluster, loud, {"cpu": "1"}, {"cpu": "2"})
    create_quota(cluster, lent, {"cpu": "1"}, {"cpu": "6"})
    create_quota(cluster, owner, {"cpu": "4"}, {"cpu": "4"})
    await_quota(cluster, loud, lent, owner)
    for name in ("a", "b"):
        create_pod(cluster, loud, name)
        create_pod(cluster, lent, name)
    eventually(lambda: len(bound(cluster, loud)) == len(bound(cluster, lent)) == 2, WAIT)
    for name in ("c", "d"):
        create_pod(cluster, loud, name)
        refused(cluster, loud, name)
        bind(cluster, loud, name, "one")
    eventually(lambda: len(events(cluster, loud, "RuleBroken")) == 2, WAIT)
    notes = {event["regarding"]["name"]: event["note"] for event in events(cluster, loud, "RuleBroken")}
    assert notes["d"] == (
        f"bound to node one by a client other than muster-scheduler; ElasticQuota {loud}/quota now uses "
        "cpu=4 of max=2"
    )
    eventually(lambda: running.metric("muster_pods_bound_past_max_total") == 2.0, WAIT)
    uses(cluster, loud, "4")

    def above_max() -> bool:
        conditions = {item["type"]: item for item in quota(cluster, loud)["status"]["conditions"]}
        return bool(conditions["AboveMax"]["message"].startswith("uses cpu=4 of max=2"))

    eventually(above_max, WAIT)
    create_pod(cluster, owner, "mine", "2")
    eventually(lambda: bound(cluster, owner), WAIT)
    assert set(bound(cluster, lent)) == {"a", "b"}, "who is within its max stays"
    assert len(bound(cluster, loud)) == 2


def test_a_charged_pod_of_another_scheduler_counts_before_it_has_a_node(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "8")
    create_quota(cluster, namespace, {"cpu": "2"}, {"cpu": "2"})
    body = {
        "metadata": {"name": "other", "annotations": {"muster.dev/charged": "true"}},
        "spec": {
            "schedulerName": "somebody-else",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "2"}}}
            ],
        },
    }
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    uses(cluster, namespace, "2")
    create_pod(cluster, namespace, "ours")
    refused(cluster, namespace, "ours")
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/other", {"gracePeriodSeconds": 0})
    eventually(lambda: bound(cluster, namespace) == {"ours": "one"}, WAIT)


@pytest.mark.smoke
def test_an_admitted_charge_counts_before_its_pod_is_visible(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    create_node(cluster, "one", "64")
    # It counts for two seconds only. On a slow machine they may be over before the pod is tried.
    namespace = eventually(lambda: refused_by_a_charge(cluster, running), 2 * WAIT)
    cluster.request("DELETE", f"{LEDGERS.format(namespace)}/elastic")
    eventually(lambda: bound(cluster, namespace) == {"ours": "one"}, WAIT)


def refused_by_a_charge(cluster: Cluster, running: SchedulerProcess) -> str:
    """A new namespace whose pod waits as something was charged; empty where the charge counted no more."""
    namespace = cluster.namespace()
    create_quota(cluster, namespace, {"cpu": "2"}, {"cpu": "2"})
    await_quota(cluster, namespace)
    charge = {"uid": "on-its-way", "pod": "other", "usage": {"cpu": "2", "pods": "1"}}
    body = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "ReservationLedger",
        "metadata": {"name": "elastic"},
        "spec": {"charges": [charge]},
    }
    cluster.request("POST", LEDGERS.format(namespace), body)
    used = partial(running.metric, "muster_quota_used", namespace=namespace, resource="cpu")
    with suppress(AssertionError):
        eventually(lambda: used() == 2.0, PENDING_SECONDS)
    create_pod(cluster, namespace, "ours")
    condition = eventually(lambda: scheduled_condition(cluster, namespace, "ours"), WAIT)
    if condition["status"] == "True":
        return ""
    assert "exceeds max" in condition["message"]
    return namespace
