"""The whole scheduler process on a real API server: CPU time per pod, and pods bound per second.

Pods wait before the process starts. CPU time beyond that of a start without pods (imports, nodes) counts
until the last event is posted: decoding, decisions, bindings, events and confirmations. `python -m
benchmarks.bench_process --nodes 5000 --pods 3000 [--server sandbox] [--runs 5]` runs one size.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from benchmarks.support.row import NotHere, Row
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.errors import NotFound
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import NAMESPACES, NODES, PODS, Resource
from scheduler_core.model.writes import Create
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.full_sandbox import FullSandbox
from tests.support.clusters.server import Server
from tests.tools.build import possible

SCHEDULER = "muster-scheduler"
NAMESPACE = "bench"
TIMEOUT_SECONDS = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Addressed(Protocol):
    """A server with a kubeconfig for a scheduler."""

    @property
    def kubeconfig(self) -> Path: ...


@dataclass(frozen=True)
class Result:
    """Figures of one run: CPU seconds of a start without pods, and of a run with pods."""

    idle_seconds: float
    busy_seconds: float
    pods_per_second: float


def node(number: int) -> dict[str, Any]:
    """A node of 32 CPUs."""
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return {
        "metadata": {"name": f"node-{number}", "labels": {"topology.kubernetes.io/zone": f"z{number % 3}"}},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(number: int) -> dict[str, Any]:
    """A plain pod: one container with requests."""
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "main", "image": "registry.example/pause:3", "resources": {"requests": requests}}
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": "bench"}},
        "spec": {"schedulerName": SCHEDULER, "containers": [container]},
    }


def create_all(client: Client, writes: list[Create]) -> None:
    """Create objects from several threads."""
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(client.create, writes, chunksize=16):
            pass


def is_served(client: Client, kind: Resource, namespace: str) -> bool:
    """True if objects of the kind can be listed."""
    try:
        client.get_page(kind, namespace, limit=1)
    except NotFound:
        return False
    return True


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def new_log() -> Path:
    """A file for the log of a scheduler."""
    return Path(tempfile.mkdtemp()) / "scheduler.log"


@contextmanager
def scheduler(
    server: Addressed, log: Path | None = None, cgroup: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A scheduler process that writes to `log`, or to a new file; `cgroup` is the folder of its cgroup."""
    flags = ["--leader-elect=false", "--kube-api-qps=100000", "--kube-api-burst=100000", "--secure-port=0"]
    command = [sys.executable, "-m", "scheduler_core.app", "--kubeconfig", str(server.kubeconfig), *flags]
    if cgroup is not None:
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(cgroup / "cgroup.procs"), *command]
    with (log or new_log()).open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def synced_scheduler(server: Addressed, cgroup: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A scheduler process that has read all lists."""
    log = new_log()
    with scheduler(server, log, cgroup) as process:
        await_true("synced", lambda: "synced" in log.read_text() or process.poll() is not None)
        yield process


class Watcher:
    """Records when each bound pod is first seen; reopens a watch that an overloaded server closes."""

    def __init__(self, client: Client) -> None:
        self.bound: set[str] = set()
        self.times: list[float] = []
        self._reflector = Reflector(client, PODS, _has_node, self._note, namespace=NAMESPACE)
        self._reflector.start()
        await_true("watching", self._reflector.synced.is_set)

    def _note(self, event: Event) -> None:
        if event.obj and event.key not in self.bound:
            self.bound.add(event.key)
            self.times.append(time.monotonic())

    def close(self) -> None:
        """End the watch."""
        self._reflector.stop()
        self._reflector.join(5)


def _has_node(raw: msgspec.Raw) -> bool:
    return b'"nodeName":"' in bytes(raw)


def await_true(what: str, probe: Any) -> None:
    """Poll until `probe()` is true. Raises TimeoutError."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not probe():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def events_posted(client: Client) -> int:
    """Number of events, from a list request with limit 1."""
    page = client.call("GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events?limit=1")
    text = page.decode()
    rest = text.partition('"remainingItemCount":')[2]
    items = text.count('"reportingController"') and 1
    return items + (int(rest.partition("}")[0].partition(",")[0]) if rest else 0)


def measure(server: Server, nodes: int, pods: int) -> Result:
    """One run on a fresh server."""
    client, _ = connect(Overrides(kubeconfig=str(server.kubeconfig)))
    client.create(Create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}}))
    create_all(client, [Create(NODES, "", node(number)) for number in range(nodes)])
    with synced_scheduler(server) as process:
        idle = cpu_seconds(process.pid)
    create_all(client, [Create(PODS, NAMESPACE, pod(number)) for number in range(pods)])
    watcher = Watcher(client)
    with scheduler(server) as process:
        await_true("all bound", lambda: len(watcher.bound) == pods)
        await_true("all events", lambda: events_posted(client) >= pods)
        time.sleep(0.3)
        busy = cpu_seconds(process.pid)
    watcher.close()
    seconds = watcher.times[-1] - watcher.times[0]
    return Result(idle, busy, (pods - 1) / seconds)


def start(kind: str) -> AbstractContextManager[Server]:
    """A server of kind `name`."""
    if kind == "sandbox":
        return FullSandbox()
    # Without a kubelet, nodes would keep the taint not-ready.
    return ControlPlane(extra_flags=["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"])


# CPU time per pod on a busy machine is twice that on an idle one.
BOUNDS: Mapping[int, float] = {1000: 0.5, 5000: 0.7}
# Other work of the machine only adds time, so the minimum of several runs is the best estimate.
RUNS = 5


@dataclass(frozen=True)
class Best:
    """Figures of several runs."""

    idle_seconds: float
    cpu_ms_per_pod: float
    pods_per_second: float


def best(kind: str, nodes: int, pods: int, runs: int) -> Best:
    """Minimum time with pods minus minimum time without pods; each run has a server of its own."""
    results = []
    for _ in range(runs):
        with start(kind) as server:
            results.append(measure(server, nodes, pods))
    busy = min(result.busy_seconds for result in results)
    idle = min(result.idle_seconds for result in results)
    return Best(idle, (busy - idle) / pods * 1000, max(result.pods_per_second for result in results))


def require_apiserver() -> None:
    """Raises NotHere if kube-apiserver is missing and cannot be built."""
    if not (possible("kube-apiserver") and possible("etcd")):
        raise NotHere("it needs a kube-apiserver and etcd, which MUSTER_NO_BUILD=1 forbids to build")


def main(small: bool = False) -> list[Row]:
    """The figures with 1,000 and 5,000 nodes on a real kube-apiserver."""
    require_apiserver()
    bounds, pods, runs = ({20: 0.5}, 60, 1) if small else (BOUNDS, 3000, RUNS)
    rows = []
    for nodes, bound in bounds.items():
        result = best("kube-apiserver", nodes, pods, runs)
        size = f"{nodes:,} nodes, {pods:,} pods"
        rows.append(Row(f"own CPU of a start without pods, {nodes:,} nodes", result.idle_seconds, "s CPU"))
        rows.append(Row(f"own CPU per pod, {size}", result.cpu_ms_per_pod, "ms", ceiling=bound))
        rows.append(Row(f"bound per second, {size}", result.pods_per_second, "pods/s"))
    return rows


def _command_line() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--server", default="kube-apiserver", choices=["kube-apiserver", "sandbox"])
    parser.add_argument("--runs", type=int, default=1, help="of which the best is shown")
    given = parser.parse_args()
    print(best(given.server, given.nodes, given.pods, given.runs))


if __name__ == "__main__":
    _command_line()
