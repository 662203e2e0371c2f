"""Two schedulers on one lease: handing over loses and doubles no binding."""

from __future__ import annotations

import json
import signal
import ssl
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    create_pod,
    events,
    scheduler,
)
from tests.support.eventually import eventually

# Fewer than fit on one node.
PODS = 100
# A busy machine can renew them.
QUICK = (
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
)
WAIT = 40.0


class Nodes:
    """Every nodeName that the watch ever showed of every pod of a namespace."""

    def __init__(self) -> None:
        self.seen: dict[str, list[str]] = defaultdict(list)

    def take(self, line: bytes) -> None:
        pod = json.loads(line)["object"]
        node, name = pod["spec"].get("nodeName"), pod["metadata"]["name"]
        if node and self.seen[name][-1:] != [node]:
            self.seen[name].append(node)


@contextmanager
def watch(cluster: Cluster, path: str, version: str) -> Iterator[HTTPResponse]:
    """The changes of a collection since a version, a line each."""
    query = f"?watch=1&resourceVersion={version}&timeoutSeconds=90"
    headers = {"Authorization": f"Bearer {cluster.token}"}
    call = urllib.request.Request(cluster.url + path + query, headers=headers)
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    with urllib.request.urlopen(call, context=context, timeout=90) as stream:
        yield stream


@contextmanager
def watching(cluster: Cluster, namespace: str) -> Iterator[Nodes]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    nodes = Nodes()
    with watch(cluster, path, cluster.request("GET", path)["metadata"]["resourceVersion"]) as stream:
        ended = threading.Event()

        def read() -> None:
            try:
                for line in stream:
                    nodes.take(line)
                    if ended.is_set():
                        return
            except (OSError, ValueError):
                return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield nodes
        ended.set()
        # One more event wakes the reader.
        create_pod(cluster, namespace, "last", schedulerName="nobody")
        reader.join(60)


def await_leader(*candidates: SchedulerProcess) -> tuple[SchedulerProcess, SchedulerProcess]:
    """The one that leads, and the other."""

    def leader() -> SchedulerProcess | None:
        return next((candidate for candidate in candidates if candidate.leads), None)

    found = eventually(leader, WAIT)
    (other,) = [candidate for candidate in candidates if candidate is not found]
    assert not other.leads
    return found, other


def burst(cluster: Cluster, namespace: str) -> None:
    """Create the pods, several at a time."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: create_pod(cluster, namespace, f"p{number}", "100m"), range(PODS)))


@contextmanager
def pair(
    cluster: Cluster, folder: Path, namespace: str
) -> Iterator[tuple[SchedulerProcess, SchedulerProcess]]:
    """Two candidates for a lease of this test's own, slower than `burst`, so that bindings are left to do."""
    flags = (
        *QUICK,
        f"--leader-elect-resource-namespace={namespace}",
        "--kube-api-qps=15",
        "--kube-api-burst=10",
    )
    with (
        scheduler(cluster, folder, *flags, name="first", elect=True) as first,
        scheduler(cluster, folder, *flags, name="second", elect=True) as second,
    ):
        yield await_leader(first, second)


def test_killing_the_leader_in_a_burst_loses_and_doubles_no_binding(cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    for number in range(4):
        create_node(cluster, f"node-{number}", "32")
    with pair(cluster, tmp_path, namespace) as (leader, other), watching(cluster, namespace) as nodes:
        burst(cluster, namespace)
        eventually(lambda: len(bound(cluster, namespace)) >= 20, WAIT)
        assert len(bound(cluster, namespace)) < PODS
        leader.end(signal.SIGKILL)
        eventually(lambda: len(bound(cluster, namespace)) == PODS, WAIT)
        eventually(lambda: other.leads, WAIT)
        # A second binding of a pod would be refused, and told as an event.
        assert events(cluster, namespace, "FailedScheduling") == []
        eventually(lambda: len(nodes.seen) == PODS, WAIT)
    assert {name: len(seen) for name, seen in nodes.seen.items() if len(seen) != 1} == {}


@pytest.mark.smoke
def test_a_leader_asked_to_end_finishes_its_bindings_and_hands_over_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "64")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    with pair(cluster, tmp_path, namespace) as (leader, _):
        lease = cluster.request("GET", f"{leases}/muster-scheduler")
        burst(cluster, namespace)
        eventually(lambda: len(bound(cluster, namespace)) >= 20, WAIT)
        leader.process.send_signal(signal.SIGTERM)
        assert leader.process.wait(WAIT) == 0, leader.said()
        assert "leadership lost" not in leader.said()
        eventually(lambda: len(bound(cluster, namespace)) == PODS, WAIT)
        holders = holders_since(cluster, leases, lease)
    # It gives the lease away: the other need not wait until the lease expires.
    assert holders[1] == ""


def holders_since(cluster: Cluster, leases: str, lease: dict[str, Any]) -> list[str]:
    """Who held a lease, one after the other, from this form of it to the next holder; empty: nobody."""
    holders: list[str] = [lease["spec"]["holderIdentity"]]
    with watch(cluster, leases, lease["metadata"]["resourceVersion"]) as stream:
        for line in stream:
            holder = json.loads(line)["object"]["spec"].get("holderIdentity") or ""
            if holder != holders[-1]:
                holders.append(holder)
            if holder not in ("", holders[0]):
                break
    return holders


def test_a_leader_that_lost_its_lease_exits(cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/muster-scheduler"
    flags = (*QUICK, f"--leader-elect-resource-namespace={namespace}")
    with scheduler(cluster, tmp_path, *flags, elect=True) as only:
        eventually(lambda: only.leads, WAIT)
        cluster.request("PATCH", path, {"spec": {"holderIdentity": "a-rival"}})
        assert only.process.wait(WAIT) == 1
        assert f"leadership lost: the lease {namespace}/muster-scheduler is held by a-rival" in only.said()
