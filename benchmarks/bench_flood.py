"""Latency of one namespace's pods while another namespace creates tens of thousands of unschedulable pods.

The scheduler process reads a watch with the created pods, at the rate of a fast API server or all at once.
Every 100 ms the watch contains a pod of the other namespace that can start immediately. The server
(`canned_server.py`) measures the time from this watch event to the binding, and confirms the binding.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.bench_process import synced_scheduler
from benchmarks.bench_restart import (
    MOST_SECONDS,
    QUIET_SECONDS,
    QUOTAS_PATH,
    SMALL_QUIET_SECONDS,
    await_rest,
    change,
    plain_pod,
    quota,
)
from benchmarks.support.canned_server import PODS_PATH, CannedServer, node, pages
from benchmarks.support.row import Row

FLOOD, QUIET = "flood", "quiet"
PROBE_SECONDS = 0.1
# Interval of writes; pods that are created in between are sent together.
TICK_SECONDS = 0.01


@dataclass(frozen=True)
class Size:
    """Number of nodes, and number and rate per second of the pods that one namespace creates.

    `quiet`: for how long a scheduler that has read the nodes is at rest.
    """

    nodes: int
    pods: int
    rate: float
    quiet: float


FULL = Size(5_000, 50_000, 1_500, QUIET_SECONDS)
SMALL = Size(20, 300, 1_500, SMALL_QUIET_SECONDS)


def equal(number: int) -> dict[str, Any]:
    """A pod like all others, beyond its quota."""
    return plain_pod(FLOOD, f"pod-{number}")


def different(number: int) -> dict[str, Any]:
    """A pod with unique requests, beyond its quota."""
    return plain_pod(FLOOD, f"pod-{number}", f"{1000 + number}m")


def unschedulable(number: int) -> dict[str, Any]:
    """A pod like all others, within its quota, which fits no node."""
    return plain_pod(FLOOD, f"pod-{number}", "1m", nodeSelector={"disk": "none"})


KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "equal, max is full": equal,
    "different, max is full": different,
    "equal, a selector refuses": unschedulable,
}


class Flood:
    """The server's part: watch events of pods, and times of event and binding for the quiet namespace."""

    def __init__(self, nodes: int) -> None:
        self.shown: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self._pods: dict[str, dict[str, Any]] = {}
        self._changes = 0
        self._lock = threading.Lock()
        quotas = [quota(FLOOD, "100"), quota(QUIET, "1000")]
        # The first pod leaves only the requests of the unschedulable pods in the quota.
        running = [plain_pod(FLOOD, "runs", "99500m", nodeName="node-0")]
        lists = {
            "/api/v1/nodes": pages(nodes, node),
            QUOTAS_PATH: pages(len(quotas), quotas.__getitem__),
            PODS_PATH: pages(len(running), running.__getitem__),
        }
        self.server = CannedServer(lists, self._on_bind)

    def show(self, pods: list[dict[str, Any]], probes: int) -> None:
        """Send new pods on the watch, each batch followed by pods that can start."""
        fresh = [plain_pod(QUIET, f"probe-{len(self._pods) + number}", "10m") for number in range(probes)]
        keys = [f"{QUIET}/{pod['metadata']['name']}" for pod in fresh]
        self._pods |= zip(keys, fresh, strict=True)
        self._tell("ADDED", [*pods, *fresh], keys)

    def _tell(self, kind: str, pods: list[dict[str, Any]], keys: list[str]) -> None:
        # resourceVersions grow in the order of the events.
        with self._lock:
            lines = [change(kind, pod, number) for number, pod in enumerate(pods, self._changes + 1)]
            self._changes += len(lines)
            self.shown.update(dict.fromkeys(keys, time.monotonic()))
            if lines:
                self.server.tell(PODS_PATH, b"".join(lines))

    def _on_bind(self, key: str, node: str) -> None:
        self.bound.setdefault(key, time.monotonic())
        pod = self._pods[key]
        pod["spec"]["nodeName"] = node
        self._tell("MODIFIED", [pod], [])

    def await_bound(self, seconds: float) -> None:
        """Wait until all pods that can start are bound. Raises TimeoutError."""
        give_up = time.monotonic() + seconds
        while len(self.bound) < len(self.shown) and time.monotonic() < give_up:
            time.sleep(TICK_SECONDS)
        if len(self.bound) < len(self.shown):
            raise TimeoutError(f"{len(self.shown) - len(self.bound)} pods were not bound")

    def waited(self) -> list[float]:
        """Sorted waiting times of the pods that can start, in milliseconds."""
        return sorted((self.bound[key] - at) * 1000 for key, at in self.shown.items())


def waits(size: Size, make: Callable[[int], dict[str, Any]], at_once: bool) -> list[float]:
    """Sorted waiting times of the quiet namespace's pods in milliseconds."""
    flood = Flood(size.nodes)
    with flood.server, synced_scheduler(flood.server) as process:
        await_rest(process, size.quiet)
        pods = list(map(make, range(size.pods)))
        began, done, probed = time.monotonic(), 0, 0
        while done < size.pods:
            passed = time.monotonic() - began
            until = size.pods if at_once else min(size.pods, int(passed * size.rate))
            probes = int(passed / PROBE_SECONDS) + 1 - probed
            flood.show(pods[done:until], probes)
            done, probed = until, probed + probes
            time.sleep(TICK_SECONDS)
        flood.await_bound(MOST_SECONDS)
    return flood.waited()


def main(small: bool = False) -> list[Row]:
    """Rows per kind of flood: median, 99th percentile and maximum of the waiting time."""
    size = SMALL if small else FULL
    rows = []
    for name, make in KINDS.items():
        found = waits(size, make, at_once=False)
        title = f"{size.pods:,} pods at {size.rate:,.0f}/s, {name}: others wait"
        ceiling = None if make is different else 100.0
        rows += [
            Row(f"{title}, p50", found[len(found) // 2], "ms"),
            Row(f"{title}, p99", found[min(len(found) - 1, len(found) * 99 // 100)], "ms", ceiling=ceiling),
            Row(f"{title}, at most", found[-1], "ms"),
        ]
    found = waits(size, equal, at_once=True)
    rows.append(Row(f"{size.pods:,} pods in one piece, max is full: another waits", found[-1], "ms"))
    return rows
