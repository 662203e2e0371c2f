"""Conditions and events of preemption victims, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    bound,
    create_node,
    create_pod,
    create_priority_class,
    create_quota,
    get_pod,
    scheduler,
)
from tests.support.eventually import eventually

WAIT = 40.0
FINALIZER = "example.com/look-first"


def hold(cluster: Cluster, namespace: str, name: str, finalizers: list[str]) -> None:
    """A pod with a finalizer stays, deleted, until the finalizer is taken away."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    cluster.request("PATCH", path, {"metadata": {"finalizers": finalizers}})


def terminating(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    pods = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in pods if pod["metadata"].get("deletionTimestamp")]


def disruption(pod: dict[str, Any]) -> dict[str, Any]:
    conditions = pod["status"].get("conditions") or ()
    return next((item for item in conditions if item["type"] == "DisruptionTarget"), {})


def test_a_victim_of_priority_says_why_it_goes_and_its_room_is_free_only_then(
    cluster: Cluster, tmp_path: Path
) -> None:
    namespace = cluster.namespace()
    urgent = f"urgent-{namespace}"
    create_priority_class(cluster, urgent)
    create_node(cluster, "one", "2")
    with scheduler(cluster, tmp_path):
        create_pod(cluster, namespace, "low", "2")
        eventually(lambda: "low" in bound(cluster, namespace), WAIT)
        hold(cluster, namespace, "low", [FINALIZER])
        create_pod(cluster, namespace, "high", "2", priorityClassName=urgent)
        (victim,) = eventually(lambda: terminating(cluster, namespace), WAIT)
        told = disruption(victim)
        assert (told["status"], told["reason"]) == ("True", "PreemptionByScheduler")
        assert f"{namespace}/high" in told["message"]
        assert get_pod(cluster, namespace, "high")["spec"].get("nodeName") is None
        hold(cluster, namespace, "low", [])
        eventually(lambda: bound(cluster, namespace) == {"high": "one"}, WAIT)


@pytest.mark.smoke
def test_borrowers_that_give_back_say_why_and_others_are_not_marked(cluster: Cluster, tmp_path: Path) -> None:
    lender, borrower = cluster.namespace("lender"), cluster.namespace("borrower")
    create_node(cluster, "one", "4")
    for namespace in (lender, borrower):
        create_quota(cluster, namespace, {"cpu": "2"}, {"cpu": "4"})
    names = [f"b{number}" for number in range(4)]
    with scheduler(cluster, tmp_path):
        for name in names:
            create_pod(cluster, borrower, name)
        eventually(lambda: set(bound(cluster, borrower)) == set(names), WAIT)
        for name in names:
            hold(cluster, borrower, name, [FINALIZER])
        create_pod(cluster, lender, "own")
        (victim,) = eventually(lambda: terminating(cluster, borrower), WAIT)
        assert disruption(victim)["reason"] == "PreemptionByScheduler"
        hold(cluster, borrower, victim["metadata"]["name"], [])
        eventually(lambda: "own" in bound(cluster, lender), WAIT)
        left = [get_pod(cluster, borrower, name) for name in bound(cluster, borrower)]
        assert [disruption(pod) for pod in left] == [{}, {}, {}]
        for pod in left:
            hold(cluster, borrower, pod["metadata"]["name"], [])
