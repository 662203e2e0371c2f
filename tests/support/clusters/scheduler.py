"""Scheduler processes for end-to-end tests, and the objects that they are given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.support.clusters import forks
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.forks import Forked
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.free_port import free_port

SCHEDULER = "muster-scheduler"
START_SECONDS = 120.0


class SchedulerProcess:
    """One `muster-scheduler`, its log and its HTTP port."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked, log: Path, port: int, token: str) -> None:
        self.process = process
        self.log = log
        self.url = f"http://127.0.0.1:{port}"
        self._token = token

    def page(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Status and text of a page, for a token's owner, an administrator; status 0 while nobody listens."""
        bearer = {"Authorization": f"Bearer {self._token if token is None else token}"}
        try:
            request = urllib.request.Request(self.url + path, headers=bearer)
            with urllib.request.urlopen(request, timeout=15) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, the sum where several series have these labels."""
        total = 0.0
        for line in self.page("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            found, _, rest = series.partition("{")
            if found == name and all(f'{key}="{text}"' in rest for key, text in labels.items()):
                total += float(value)
        return total

    @property
    def leads(self) -> bool:
        return self.metric("muster_leader") == 1.0

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait(60)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


MODULE = "scheduler_core.app"
PROGRAM = ("-m", MODULE)


def options(cluster: Cluster, port: int, *flags: str) -> list[str]:
    base = [f"--secure-port={port}"]
    if not any(flag.startswith("--config") for flag in flags):
        base.append(f"--kubeconfig={cluster.kubeconfig}")
    return [*base, *flags]


def command(cluster: Cluster, port: int, *flags: str) -> list[str]:
    return [sys.executable, *PROGRAM, *options(cluster, port, *flags)]


def _start(
    program: Sequence[str], arguments: Sequence[str], output: IO[bytes]
) -> subprocess.Popen[bytes] | Forked:
    if program == PROGRAM:
        return forks.start(MODULE, arguments, output.fileno())
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@contextmanager
def scheduler(
    cluster: Cluster,
    folder: Path,
    *flags: str,
    name: str = "scheduler",
    elect: bool = False,
    ready: bool = True,
    program: Sequence[str] = PROGRAM,
) -> Iterator[SchedulerProcess]:
    """A scheduler that runs until the block ends; ready when the block starts.

    `program` is what Python runs in place of the scheduler itself.
    """
    port = free_port()
    election: Sequence[str] = () if elect else ("--leader-elect=false",)
    config = any(flag.startswith("--config") for flag in flags)
    rate = () if config else ("--kube-api-qps=1000", "--kube-api-burst=1000")
    log = folder / f"{name}.log"
    with log.open("ab") as output:
        process = _start(program, options(cluster, port, *election, *rate, *flags), output)
    running = SchedulerProcess(process, log, port, cluster.token)
    try:
        if ready:
            eventually(lambda: is_ready(running), START_SECONDS)
        yield running
    finally:
        process.kill()
        process.wait(60)


def is_ready(running: SchedulerProcess) -> bool:
    code = running.process.poll()
    if code is not None:
        raise RuntimeError(f"the scheduler ended with {code}: {running.said()}")
    return running.page("/readyz")[0] == 200


def create_node(
    cluster: Cluster, name: str, cpu: str = "4", labels: dict[str, str] | None = None, **spec: Any
) -> None:
    """A schedulable node; without a kubelet, servers would keep it tainted as not ready."""
    room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": room, "capacity": room},
    }
    cluster.request("POST", "/api/v1/nodes", body)
    cluster.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": spec.get("taints") or None}})


def await_node(running: SchedulerProcess, name: str) -> None:
    """Wait until a scheduler has seen the last write to a new node: pods come to it by another watch."""

    def known() -> bool:
        status, text = running.page("/debug/cache")
        assert status == 200, text
        nodes = json.loads(text)["nodes"]
        return any(node["node"] == name and node["allocatable"].get("cpu") for node in nodes)

    eventually(known)


def create_quota(cluster: Cluster, namespace: str, minimum: dict[str, str], maximum: dict[str, str]) -> None:
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas"
    cluster.request(
        "POST",
        path,
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "quota"},
            "spec": {"min": minimum, "max": maximum},
        },
    )


def await_quota(cluster: Cluster, *namespaces: str, timeout: float = 30.0) -> None:
    """Wait until a scheduler knows the quotas of these namespaces, that is, until it wrote their status.

    Quotas and pods come to it by different watches: a pod that is created after its quota may be seen first.
    """
    stem = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces"

    def known() -> bool:
        for namespace in namespaces:
            quota = cluster.request("GET", f"{stem}/{namespace}/elasticquotas/quota")
            assert quota.get("status", {}).get("used"), f"{namespace}: no scheduler has seen the quota"
        return True

    eventually(known, timeout)


def create_priority_class(cluster: Cluster, name: str, value: int = 1000, **fields: Any) -> None:
    """A PriorityClass that new pods may name: a kube-apiserver learns of it by a watch of its own."""
    cluster.request(
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": name}, "value": value, **fields},
    )
    containers = [{"name": "main", "image": "example.com/app:1"}]
    probe = {
        "metadata": {"name": "probe"},
        "spec": {"containers": containers, "priorityClassName": name, "schedulerName": "nobody"},
    }

    def admitted() -> bool:
        try:
            cluster.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", probe)
        except RequestFailed as refused:
            raise AssertionError(str(refused)) from None
        return True

    eventually(admitted)


def create_pod(
    cluster: Cluster,
    namespace: str,
    name: str,
    cpu: str = "1",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """A pod of one container that ends at once when it is deleted."""
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def get_pod(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    return found


def node_of(cluster: Cluster, namespace: str, name: str) -> str:
    node: str = get_pod(cluster, namespace, name)["spec"].get("nodeName", "")
    return node


def bound(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Nodes of the assigned pods of a namespace, by name."""
    pods = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def scheduled_condition(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    conditions = get_pod(cluster, namespace, name).get("status", {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == "PodScheduled"), {})


def events(cluster: Cluster, namespace: str, reason: str) -> list[dict[str, Any]]:
    items = cluster.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [item for item in items if item["reason"] == reason]


def as_json(text: str) -> Any:
    return json.loads(text)
