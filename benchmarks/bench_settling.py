"""Cost of unschedulable pods for a real API server until all of them have their condition.

The pods exist before the scheduler starts, and no node matches their selector. The figure is the CPU time of
kube-apiserver beyond its idle load, from the start of the scheduler until all pods have their condition and
no more events arrive. Pods that can start may arrive at a steady rate meanwhile. `python -m
benchmarks.bench_settling --pods 20000 [--arrivals 50]` runs one size.
"""

from __future__ import annotations

import argparse
import os
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import msgspec

from benchmarks.bench_process import (
    NAMESPACE,
    SCHEDULER,
    await_true,
    cpu_seconds,
    create_all,
    node,
    require_apiserver,
    scheduler,
    start,
)
from benchmarks.support.row import Row
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import NAMESPACES, NODES, PODS
from scheduler_core.model.writes import Create
from tests.support.clusters.server import Server

PLAIN = "plain"
_NODES = 100
REST_SECONDS = 5.0
_MOST_SECONDS = 900.0
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Result:
    """Seconds and processor seconds until all say why they wait; seconds from creation to binding, sorted.

    `rest_seconds` of the API server's are what it takes when nobody asks for anything.
    """

    seconds: float
    api_seconds: float
    rest_seconds: float
    own_seconds: float
    requests: dict[str, int]
    latencies: list[float]


def unschedulable(number: int) -> dict[str, Any]:
    """A pod that fits no node."""
    container = {"name": "main", "image": "registry.example/pause:3",
                 "resources": {"requests": {"cpu": "100m"}}}  # fmt: skip
    spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": [container]}
    spec["nodeSelector"] = {"disk": "none"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{number % 100}",
             "uid": f"00000000-0000-0000-0000-{number % 100:012d}", "controller": True}  # fmt: skip
    return {"metadata": {"name": f"waits-{number}", "ownerReferences": [owner]}, "spec": spec}


def startable(number: int) -> dict[str, Any]:
    """A pod that fits every node."""
    container = {"name": "main", "image": "registry.example/pause:3",
                 "resources": {"requests": {"cpu": "10m"}}}  # fmt: skip
    return {"metadata": {"name": f"starts-{number}"},
            "spec": {"schedulerName": SCHEDULER, "containers": [container]}}  # fmt: skip


class Said:
    """Records which pods of the namespace have the condition, and when others are bound."""

    def __init__(self, client: Client) -> None:
        self.waiting: set[str] = set()
        self.bound: dict[str, float] = {}
        self._reflector = Reflector(client, PODS, _standing, self._note)
        self._reflector.start()

    def _note(self, event: Event) -> None:
        if event.obj == "waits":
            self.waiting.add(event.key)
        elif event.obj == "bound":
            self.bound.setdefault(event.key, time.monotonic())

    def close(self) -> None:
        """End the watch."""
        self._reflector.stop()
        self._reflector.join(5)


def _standing(raw: msgspec.Raw) -> str:
    text = bytes(raw)
    if b'"nodeName":"' in text:
        return "bound"
    return "waits" if b'"type":"PodScheduled"' in text else "new"


def _child(name: str) -> int:
    """The child process with this name."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, rest = path.read_text().rpartition(")")
            if head.endswith(f"({name}") and int(rest.split()[1]) == os.getpid():
                return int(path.parent.name)
    raise LookupError(name)


def _count(client: Client) -> int:
    page = client.call("GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events").decode()
    return page.count('"reportingInstance"')


def _requests(client: Client) -> Counter[str]:
    """Number of requests of the API server by verb and resource."""
    found: Counter[str] = Counter()
    for line in client.call("GET", "/metrics").decode().splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(_LABEL.findall(line))
            found[f"{labels['verb']} {labels['resource']}"] += int(float(line.rpartition(" ")[2]))
    return found


class Arrivals:
    """Creates schedulable pods at a fixed rate per second until `stop`."""

    def __init__(self, client: Client, per_second: float) -> None:
        self.created: dict[str, float] = {}
        self._client, self._pause = client, 1.0 / per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(self._pause):
            self.created[f"{PLAIN}/starts-{number}"] = time.monotonic()
            self._client.create(Create(PODS, PLAIN, startable(number)))
            number += 1

    def stop(self) -> None:
        """No more."""
        self._stopping.set()
        self._thread.join()


def measure(server: Server, pods: int, arrivals: float, rest: float = REST_SECONDS) -> Result:
    """One run on a fresh server, whose idle load is measured for some seconds first."""
    client, _ = connect(Overrides(kubeconfig=str(server.kubeconfig)))
    for name in (NAMESPACE, PLAIN):
        client.create(Create(NAMESPACES, "", {"metadata": {"name": name}}))
    create_all(client, [Create(NODES, "", node(number)) for number in range(_NODES)])
    create_all(client, [Create(PODS, NAMESPACE, unschedulable(number)) for number in range(pods)])
    api = _child("kube-apiserver")
    time.sleep(rest)
    rested = cpu_seconds(api)
    time.sleep(rest)
    at_rest = (cpu_seconds(api) - rested) / rest
    said = Said(client)
    asked = _requests(client)
    before, began = cpu_seconds(api), time.monotonic()
    with scheduler(server) as process:
        coming = Arrivals(client, arrivals) if arrivals else None
        while len(said.waiting) < pods and time.monotonic() < began + _MOST_SECONDS:
            time.sleep(0.2)
        known = -1
        while (found := _count(client)) != known:
            known = found
            time.sleep(2.0)
        seconds = time.monotonic() - began
        spent, own = cpu_seconds(api) - before, cpu_seconds(process.pid)
        if coming is not None:
            coming.stop()
            await_true("the last one", lambda: len(said.bound) == len(coming.created))
    said.close()
    created = coming.created if coming is not None else {}
    latencies = sorted(said.bound[key] - when for key, when in created.items() if key in said.bound)
    asked = _requests(client) - asked
    written = {name: asked[name] for name in ("PATCH pods", "POST events", "PATCH events")}
    return Result(seconds, spent, at_rest * seconds, own, written, latencies)


def show(result: Result) -> str:
    """Print one line."""
    text = (
        f"{result.seconds:.0f} s, API server {result.api_seconds:.1f} CPU s "
        f"({result.rest_seconds:.1f} at rest), own {result.own_seconds:.1f} CPU s, {result.requests}"
    )
    if len(result.latencies) > 100:
        cuts = quantiles(result.latencies, n=100)
        p50, p99 = cuts[49] * 1000, cuts[98] * 1000
        text += f", {len(result.latencies)} others bound: p50 {p50:.0f} ms, p99 {p99:.0f} ms"
    return text


def main(small: bool = False) -> list[Row]:
    """The figures for 5,000 pods."""
    require_apiserver()
    pods, rest = (50, 0.5) if small else (5000, REST_SECONDS)
    with start("kube-apiserver") as server:
        result = measure(server, pods, 0.0, rest)
    return [
        Row(
            f"API server's CPU, {pods:,} pods that cannot start",
            result.api_seconds - result.rest_seconds,
            "s CPU",
            ceiling=15.0,
        )
    ]


def _command_line() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--arrivals", type=float, default=0.0, help="pods that can start, per second")
    given = parser.parse_args()
    with start("kube-apiserver") as server:
        print(show(measure(server, given.pods, given.arrivals)))


if __name__ == "__main__":
    _command_line()
