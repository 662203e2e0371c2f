"""Start of a scheduler process with a backlog: time to the binding of the first new pod, and memory.

All quotas are full, and the lists contain the pending pods without conditions, so that the scheduler has to
write a condition for each pod. A server sends the prepared lists (`canned_server.py`). When the process has
read them, the server creates a pod that can start immediately, and measures the time to its binding. Memory
is measured when all pods have been tried and the process is idle.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from subprocess import Popen
from typing import Any

import msgspec

from benchmarks.bench_process import cpu_seconds, synced_scheduler
from benchmarks.bench_startup import memory
from benchmarks.support.canned_server import PODS_PATH, VERSION, CannedServer, metadata, node, pages
from benchmarks.support.row import Row
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.names import MUSTER_SCHEDULER

QUOTAS_PATH = f"/apis/{ELASTIC_QUOTAS.api_version}/{ELASTIC_QUOTAS.plural}"
# Who uses less of a core for so many seconds has tried everybody; of a few pods, in less.
QUIET_SHARE, QUIET_SECONDS, SMALL_QUIET_SECONDS = 0.25, 3.0, 0.3
MOST_SECONDS = 300.0


@dataclass(frozen=True)
class Size:
    """Number of nodes, of namespaces with a full quota, and of pending pods in all namespaces.

    `quiet`: for how long a scheduler that has tried them all is at rest.
    """

    nodes: int
    classes: int
    waiting: int
    quiet: float = QUIET_SECONDS


FULL, SMALL = Size(5_000, 200, 100_000), Size(20, 5, 100, SMALL_QUIET_SECONDS)
# The chart's limit of memory for the scheduler, in MiB (`charts/muster/values.yaml`).
LIMIT = 1024.0


@dataclass(frozen=True)
class Started:
    """Seconds from the lists to the new pod's binding, CPU seconds, and MiB when idle and at maximum."""

    first: float
    cpu: float
    resident: float
    most: float


def plain_pod(namespace: str, name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A pod of a Job as the API server returns it; `spec` adds fields, and a pod with `nodeName` runs."""
    token = "kube-api-access"
    requests = {"cpu": cpu, "memory": "64Mi"}
    container = {
        "name": "main",
        "image": f"registry.example/{namespace}:1",
        "resources": {"requests": requests, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": token, "readOnly": True, "mountPath": "/var/run/secrets/token"}],
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
    }
    wait = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        "metadata": {
            **metadata(name, {"job": namespace}),
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
        },
        "spec": {
            "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {}}]}}],
            "containers": [container],
            "restartPolicy": "Never",
            "schedulerName": MUSTER_SCHEDULER,
            "tolerations": [{"key": key, **wait} for key in keys],
            "priority": 0,
            **spec,
        },
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


def quota(namespace: str, cpu: str = "1") -> dict[str, Any]:
    """An ElasticQuota of that many CPUs."""
    kind = {"apiVersion": ELASTIC_QUOTAS.api_version, "kind": ELASTIC_QUOTAS.kind}
    room = {"cpu": cpu}
    meta = {**metadata("quota", {}), "namespace": namespace}
    return {**kind, "metadata": meta, "spec": {"min": room, "max": room}}


def backlog(size: Size, different: bool) -> dict[str, list[bytes]]:
    """The lists: the first pods fill the quotas, the others wait, class by class in turn."""

    def pod(number: int) -> dict[str, Any]:
        namespace = f"full-{number % size.classes}"
        if number < size.classes:
            return plain_pod(namespace, f"runs-{number}", nodeName=f"node-{number % size.nodes}")
        return plain_pod(namespace, f"waits-{number}", f"{number}m" if different else "1")

    return {
        "/api/v1/nodes": pages(size.nodes, node),
        QUOTAS_PATH: pages(size.classes, lambda number: quota(f"full-{number}")),
        PODS_PATH: pages(size.classes + size.waiting, pod),
    }


def change(kind: str, pod: dict[str, Any], number: int) -> bytes:
    """The watch event of change `number` after the lists."""
    pod["metadata"]["resourceVersion"] = str(VERSION + number)
    return msgspec.json.encode({"type": kind, "object": pod}) + b"\n"


def await_rest(process: Popen[str], seconds: float) -> None:
    """Wait until the process has been almost idle for so many seconds. Raises TimeoutError."""
    until = time.monotonic() + MOST_SECONDS
    quiet, pause = 0.0, min(1.0, seconds)
    while quiet < seconds:
        used = cpu_seconds(process.pid)
        time.sleep(pause)
        quiet = quiet + pause if cpu_seconds(process.pid) - used < QUIET_SHARE * pause else 0.0
        if time.monotonic() > until:
            raise TimeoutError("the scheduler does not come to rest")


def measured(size: Size, different: bool) -> Started:
    """The figures of one start."""
    bound = threading.Event()
    with (
        CannedServer(backlog(size, different), lambda key, node: bound.set()) as server,
        synced_scheduler(server) as process,
    ):
        began, used = time.monotonic(), cpu_seconds(process.pid)
        server.tell(PODS_PATH, change("ADDED", plain_pod("new", "first"), 1))
        if not bound.wait(MOST_SECONDS):
            raise TimeoutError("the new pod was not bound")
        first, cpu = time.monotonic() - began, cpu_seconds(process.pid) - used
        await_rest(process, size.quiet)
        return Started(first, cpu, memory(process.pid, "VmRSS"), memory(process.pid, "VmHWM"))


def main(small: bool = False) -> list[Row]:
    """Rows per kind of backlog: time to the first new pod, total memory, and memory per pending pod."""
    size = SMALL if small else FULL
    empty = measured(replace(size, waiting=0), different=False)
    rows = [Row(f"{size.nodes:,} nodes, nobody waits: memory", empty.resident, "MiB")]
    for name, different in (("equal in their class", False), ("all different", True)):
        found = measured(size, different)
        title = f"{size.waiting:,} wait, {name}"
        each = (found.resident - empty.resident) * 1024 / size.waiting
        # Twice what is promised, as the machine may be busy; different pods are tried one by one.
        first, cpu, each_most = (None, None, None) if different else (10.0, 8.0, 3.0)
        rows += [
            Row(f"{title}: first new pod after the lists", found.first, "s", ceiling=first),
            Row(f"{title}: own CPU until then", found.cpu, "s CPU", ceiling=cpu),
            Row(f"{title}: memory at rest", found.resident, "MiB"),
            Row(f"{title}: most memory", found.most, "MiB", ceiling=LIMIT),
            Row(f"{title}: memory per waiting pod", each, "KB", ceiling=each_most),
        ]
    return rows
