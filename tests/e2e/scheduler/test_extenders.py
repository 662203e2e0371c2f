"""HTTP extenders of a running scheduler: they filter, score, choose victims, bind, and hang."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.engine.extenders.parked import MOST_OF_A_NAMESPACE
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    create_pod,
    create_priority_class,
    events,
    scheduled_condition,
    scheduler,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.extender_server import ExtenderServer, Handler, extender_server, names_in

WAIT = 40.0
GPU = "example.com/gpu"


@contextmanager
def extended(
    cluster: Cluster, folder: Path, *extenders: dict[str, Any], name: str = "extended"
) -> Iterator[SchedulerProcess]:
    """A scheduler with these extenders, ready."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig), "qps": 1000, "burst": 1000},
        "profiles": [{"schedulerName": "muster-scheduler"}],
        "extenders": list(extenders),
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config))
    with scheduler(cluster, folder, f"--config={path}", name=name) as running:
        yield running
        assert running.end() == 0, running.said()
        assert "Traceback" not in running.said()


@pytest.fixture
def extender() -> Iterator[ExtenderServer]:
    with extender_server() as server:
        yield server


def await_nodes(cluster: Cluster, namespace: str, **nodes: str) -> None:
    def there() -> bool:
        assert bound(cluster, namespace) == nodes
        return True

    eventually(there, WAIT)


def await_words(cluster: Cluster, namespace: str, name: str, *words: str) -> None:
    def said() -> bool:
        message = scheduled_condition(cluster, namespace, name).get("message", "")
        assert all(word in message for word in words), message
        return True

    eventually(said, WAIT)


def gpus(number: int) -> list[dict[str, Any]]:
    """A container that asks for so many."""
    asked = {"cpu": "1", GPU: str(number)}
    return [{"name": "main", "image": "x", "resources": {"requests": asked, "limits": {GPU: str(number)}}}]


@pytest.mark.smoke("names")
@pytest.mark.parametrize("capable", [True, False], ids=["names", "whole nodes"])
def test_extenders_filter_and_score(
    cluster: Cluster, extender: ExtenderServer, tmp_path: Path, capable: bool
) -> None:
    def keep(handler: Handler, body: Any) -> Any:
        left = [name for name in names_in(body) if name != "one"]
        if body["Pod"]["metadata"]["labels"].get("app") == "none":
            left = []
        refused = {name: "no licence" for name in names_in(body) if name not in left}
        nodes = [
            node for node in (body["Nodes"] or {"items": []})["items"] if node["metadata"]["name"] in left
        ]
        named = {"NodeNames": left} if capable else {"Nodes": {"items": nodes}}
        return {**named, "FailedNodes": refused}

    def prefer(handler: Handler, body: Any) -> Any:
        return [{"Host": name, "Score": 10 if name == "three" else 0} for name in names_in(body)]

    extender.acts = {"filter": keep, "prioritize": prefer}
    for name in ("one", "two", "three"):
        create_node(cluster, name)
    namespace = cluster.namespace()
    settings = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100}
    with extended(
        cluster, tmp_path, {"urlPrefix": extender.url, "nodeCacheCapable": capable, **settings}
    ) as running:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        for name in ("a", "b", "none"):
            body = {
                "metadata": {"name": name, "labels": {"app": name}},
                "spec": {
                    "schedulerName": "muster-scheduler",
                    "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
                },
            }
            cluster.request("POST", pods, body)
        await_nodes(cluster, namespace, a="three", b="three")
        await_words(cluster, namespace, "none", "0/3 nodes are available: 3 no licence.")
        labels = {"extender": extender.url, "verb": "filter"}
        eventually(lambda: running.metric("muster_extender_duration_seconds_count", **labels) >= 3.0, WAIT)
    sent = [body for path, body in extender.calls if path.endswith("/filter")]
    assert all(body["Pod"]["spec"]["containers"] for body in sent), "pods are sent whole"
    if not capable:
        assert all(node["status"]["allocatable"] for body in sent for node in body["Nodes"]["items"])


def test_pods_of_a_team_that_hang_leave_questions_for_those_of_others(
    cluster: Cluster, extender: ExtenderServer, tmp_path: Path
) -> None:
    """More pods than may be asked about at once, each of which is older than that of the other team."""
    busy, quiet = cluster.namespace("busy"), cluster.namespace("quiet")

    def keep(handler: Handler, body: Any) -> Any:
        if body["Pod"]["metadata"]["namespace"] == busy:
            handler.hold()
            return None
        return {"NodeNames": body["NodeNames"], "FailedNodes": {}}

    def asked(namespace: str) -> int:
        return sum(body["Pod"]["metadata"]["namespace"] == namespace for _, body in list(extender.calls))

    extender.acts = {"filter": keep}
    create_node(cluster, "one", "400")
    for number in range(MOST_OF_A_NAMESPACE + 6):
        # None equals another, so that no answer holds for two.
        create_pod(cluster, busy, f"waits-{number}", cpu=f"{100 + number}m")
    settings = {"filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "60s"}
    with extended(cluster, tmp_path, {"urlPrefix": extender.url, **settings}):
        eventually(lambda: asked(busy) > 0, WAIT)
        create_pod(cluster, quiet, "starts")
        await_nodes(cluster, quiet, starts="one")
        assert asked(busy) <= MOST_OF_A_NAMESPACE
        extender.ended.set()


def test_one_that_hangs_delays_its_own_pods_alone(
    cluster: Cluster, extender: ExtenderServer, tmp_path: Path
) -> None:
    extender.acts = {"filter": lambda handler, body: handler.hold() and None}
    create_node(cluster, "one", cpu="50")
    room = {"cpu": "50", "memory": "16Gi", "pods": "110", GPU: "50"}
    cluster.request("PATCH", "/api/v1/nodes/one/status", {"status": {"allocatable": room, "capacity": room}})
    namespace = cluster.namespace()
    settings = {
        "filterVerb": "filter",
        "httpTimeout": "1s",
        "nodeCacheCapable": True,
        "managedResources": [{"name": GPU}],
    }
    with extended(cluster, tmp_path, {"urlPrefix": extender.url, **settings}) as running:
        for number in range(20):
            create_pod(cluster, namespace, f"gpu{number}", containers=gpus(1))
        for number in range(5):
            create_pod(cluster, namespace, f"plain{number}")
        await_nodes(cluster, namespace, **{f"plain{number}": "one" for number in range(5)})
        words = "no complete answer within 1 s"
        eventually(
            lambda: any(words in event["note"] for event in events(cluster, namespace, "FailedScheduling")),
            WAIT,
        )
        labels = {"extender": extender.url, "verb": "filter", "reason": "timeout"}
        eventually(lambda: running.metric("muster_extender_errors_total", **labels) >= 1.0, WAIT)
        # It has come to itself.
        extender.acts = {"filter": lambda handler, body: {"nodenames": names_in(body)}}
        eventually(lambda: len(bound(cluster, namespace)) == 25, WAIT + 20.0)
        assert running.said().count("extender:") < 10, "failures of one kind are not told each"


@pytest.mark.parametrize(("works", "ignorable"), [(True, False), (False, True), (False, False)])
def test_an_extender_binds(
    cluster: Cluster, extender: ExtenderServer, tmp_path: Path, works: bool, ignorable: bool
) -> None:
    refusals = 0

    def bind(handler: Handler, body: Any) -> Any:
        nonlocal refusals
        if not works and not refusals:
            refusals += 1
            return {"Error": "not today"}
        target = {"apiVersion": "v1", "kind": "Node", "name": body["Node"]}
        meta = {"name": body["PodName"], "uid": body["PodUID"], "annotations": {"by": "extender"}}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
        try:
            cluster.request("POST", path, binding)
        except RequestFailed as error:
            return {"Error": str(error)}
        return {}

    extender.acts = {"bind": bind}
    create_node(cluster, "one")
    namespace = cluster.namespace()
    settings = {"bindVerb": "bind", "ignorable": ignorable, "nodeCacheCapable": True}
    with extended(cluster, tmp_path, {"urlPrefix": extender.url, **settings}):
        create_pod(cluster, namespace, "p")
        await_nodes(cluster, namespace, p="one")
        pod = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods/p")
        by = pod["metadata"].get("annotations", {}).get("by")
        assert by == (None if ignorable else "extender")
        failed = [event["note"] for event in events(cluster, namespace, "FailedScheduling")]
        if not works and not ignorable:
            eventually(
                lambda: any(
                    "not today" in event["note"] for event in events(cluster, namespace, "FailedScheduling")
                ),
                WAIT,
            )
        else:
            assert failed == []
    assert len(extender.calls) == (2 if not works and not ignorable else 1)


def test_nobody_is_evicted_where_the_extender_objects(
    cluster: Cluster, extender: ExtenderServer, tmp_path: Path
) -> None:
    def choose(handler: Handler, body: Any) -> Any:
        given = body["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {node: who for node, who in given.items() if node != "one"}}

    extender.acts = {"preempt": choose}
    for name in ("one", "two"):
        create_node(cluster, name, cpu="2")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    create_priority_class(cluster, "extended-high")
    namespace = cluster.namespace()
    try:
        settings = {"preemptVerb": "preempt", "nodeCacheCapable": True}
        with extended(cluster, tmp_path, {"urlPrefix": extender.url, **settings}):
            for name in ("one", "two"):
                create_pod(cluster, namespace, f"on-{name}", "2", nodeName=name)
            create_pod(cluster, namespace, "high", "2", priorityClassName="extended-high")
            await_nodes(cluster, namespace, high="two", **{"on-one": "one"})
    finally:
        cluster.request("DELETE", f"{classes}/extended-high")
