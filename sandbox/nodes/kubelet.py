"""Kubelets of all nodes: starts bound pods, ends them after the duration in their annotation, updates status.

Store events add pod keys to a work queue with one task; one timer serves the ends of all pods. Without a task
or timer per pod, thousands of pods per second cost little more than their status writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sandbox.errors import StatusError
from sandbox.kinds.builtin import NODES, PODS
from sandbox.nodes import pod_status
from sandbox.objects import Obj, at, now, rfc3339
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry
from sandbox.workqueue import DelayQueue, WorkQueue
from scheduler_core.errors import ModelError
from scheduler_core.model.pods.requests import requests_of
from scheduler_core.model.resources import parse_resource_list
from scheduler_core.model.timestamps import parse_time

Key = tuple[str, str]
"""Namespace and name of a pod."""


def pod_requests(pod: Obj) -> dict[str, int]:
    """Effective requests of a pod, with `pods: 1`."""
    return {**requests_of(pod), "pods": 1}


class NodeUse:
    """Requested resources of the started pods on one node."""

    def __init__(self) -> None:
        self._pods: dict[Key, dict[str, int]] = {}
        self._total: dict[str, int] = {}

    def shortage(
        self, asked: Mapping[str, int], capacity: Mapping[str, int]
    ) -> tuple[str, int, int, int] | None:
        """The first insufficient resource as (name, requested, used, capacity), or None."""
        for resource, amount in asked.items():
            used = self._total.get(resource, 0)
            if amount and used + amount > capacity.get(resource, 0):
                return resource, amount, used, capacity.get(resource, 0)
        return None

    def put(self, key: Key, asked: dict[str, int]) -> None:
        """Add a pod, or replace its requests."""
        self.drop(key)
        self._pods[key] = asked
        for resource, amount in asked.items():
            self._total[resource] = self._total.get(resource, 0) + amount

    def drop(self, key: Key) -> None:
        """Remove a pod that has ended; unknown pods are ignored."""
        for resource, amount in self._pods.pop(key, {}).items():
            self._total[resource] -= amount


_LOG = logging.getLogger(__name__)
_KILLED = 143
_POD_NETWORK = 244


@dataclass(frozen=True, slots=True)
class _End:
    """Future end of a pod's containers; `stopped` if the pod was deleted, with so many seconds of grace."""

    key: Key
    uid: str
    stopped: bool
    grace: int = 0


class Kubelet:
    """Runs the pods of all existing nodes. Call `start` once on the server's event loop, then `stop`.

    `speed` divides how long pods run and how long deleted pods stay.
    """

    def __init__(self, registry: Registry, *, speed: float = 1.0) -> None:
        self._registry = registry
        self._speed = speed
        self._queue: WorkQueue[Key] = WorkQueue(self._handle, "kubelet")
        self._ends: DelayQueue[_End] = DelayQueue(self._on_end)
        self._due: dict[Key, _End] = {}
        self._scheduled: dict[Key, _End] = {}
        self._use: dict[str, NodeUse] = {}
        self._capacity: dict[str, dict[str, int]] = {}
        self._address: dict[str, str] = {}
        self._unsubscribe: list[Callable[[], None]] = []
        self._started = 0

    def start(self) -> None:
        """Subscribe to nodes and pods, and handle the existing ones."""
        store = self._registry.store
        self._unsubscribe = [store.subscribe(NODES, self._on_node), store.subscribe(PODS, self._on_pod)]
        for node in store.iterate(NODES):
            self._store_node(node)
        for pod in store.iterate(PODS):
            self._on_pod("ADDED", pod, None)
        self._queue.start()

    async def stop(self) -> None:
        """Stop; the pods remain unchanged."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._ends.cancel()
        await self._queue.stop()

    def _on_node(self, event: EventType, node: Obj, old: Obj | None) -> None:
        if event == "DELETED":
            self._capacity.pop(node["metadata"]["name"], None)
            self._address.pop(node["metadata"]["name"], None)
            return
        self._store_node(node)
        if event == "ADDED":
            for pod in self._registry.store.iterate(PODS):
                if pod["spec"].get("nodeName") == node["metadata"]["name"]:
                    self._on_pod("MODIFIED", pod, None)

    def _store_node(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        self._address[name] = _address_of(node)
        try:
            self._capacity[name] = parse_resource_list(
                at(node, "status", "allocatable"), "status.allocatable", rounding="down"
            )
        except ModelError as error:
            _LOG.warning("node %s: %s", name, error)
            self._capacity[name] = {}

    def _on_pod(self, event: EventType, pod: Obj, old: Obj | None) -> None:
        node = pod["spec"].get("nodeName")
        if not node:
            return
        meta = pod["metadata"]
        key = (meta["namespace"], meta["name"])
        if event == "ADDED":
            # A pod of an earlier start keeps its address.
            self._started = max(self._started, _number_of(at(pod, "status", "podIP") or ""))
        if event == "DELETED" or at(pod, "status", "phase") in pod_status.FINISHED:
            self._scheduled.pop(key, None)
            self._due.pop(key, None)
            if node in self._use:
                self._use[node].drop(key)
            if event == "DELETED":
                return
        self._queue.put(key)

    async def _handle(self, key: Key) -> None:
        pod = self._registry.store.get(PODS, *key)
        if pod is None:
            return
        try:
            if pod["metadata"].get("deletionTimestamp"):
                await self._end_deleted(
                    key, pod
                )  # also for deleted nodes, because no other component ends these pods
            elif pod["spec"].get("nodeName") in self._capacity:
                await self._advance(key, pod)
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                _LOG.warning("pod %s/%s: %s", *key, error)
        except ModelError as error:
            _LOG.warning("pod %s/%s: %s", *key, error)

    async def _advance(self, key: Key, pod: Obj) -> None:
        phase = at(pod, "status", "phase") or "Pending"
        if phase == "Pending":
            await self._start_pod(key, pod)
        elif phase == "Running":
            await self._run_pod(key, pod)

    async def _start_pod(self, key: Key, pod: Obj) -> None:
        node = pod["spec"]["nodeName"]
        use = self._use.setdefault(node, NodeUse())
        asked = pod_requests(pod)
        use.drop(key)
        short = use.shortage(asked, self._capacity[node])
        if short:
            await self._write(key, pod, lambda seen: pod_status.rejected(seen, rfc3339(now()), *short))
            return
        use.put(key, asked)
        self._schedule_end(key, pod, _age(pod))
        self._started += 1
        address = _pod_address(self._started)
        host = self._address[node]
        await self._write(key, pod, lambda seen: pod_status.running(seen, rfc3339(now()), address, host))

    async def _run_pod(self, key: Key, pod: Obj) -> None:
        if key not in self._scheduled:
            self._use.setdefault(pod["spec"]["nodeName"], NodeUse()).put(key, pod_requests(pod))
            self._schedule_end(key, pod, _age(pod))
        if self._due.pop(key, None):
            lifetime = pod_status.lifetime_of(pod) or (0.0, 0, "")
            await self._write(key, pod, lambda seen: pod_status.ended(seen, rfc3339(now()), *lifetime[1:]))
        elif pod_status.resized(pod):
            self._use[pod["spec"]["nodeName"]].put(key, pod_requests(pod))
            await self._write(key, pod, pod_status.resized)

    def _schedule_end(self, key: Key, pod: Obj, age: float) -> None:
        end = self._scheduled[key] = _End(key, pod["metadata"]["uid"], stopped=False)
        lifetime = pod_status.lifetime_of(pod)
        if lifetime:
            self._ends.push(max(0.0, lifetime[0] / self._speed - age), end)

    def _on_end(self, end: _End) -> None:
        if self._scheduled.get(end.key) == end:
            self._due[end.key] = end
            self._queue.put(end.key)

    async def _end_deleted(self, key: Key, pod: Obj) -> None:
        meta = pod["metadata"]
        grace = meta.get("deletionGracePeriodSeconds") or 0
        seconds = min(pod_status.seconds_of(pod, pod_status.STOP_SECONDS) or 0.0, grace) / self._speed
        # A shorter grace period makes another end.
        end = _End(key, meta["uid"], stopped=True, grace=grace)
        if seconds and self._due.get(key) != end:
            if self._scheduled.get(key) != end:
                self._scheduled[key] = end
                self._ends.push(seconds, end)
            return
        if at(pod, "status", "phase") not in pod_status.FINISHED:
            # Like the real kubelet: a pod reaches a final phase before it is removed.
            await self._write(key, pod, lambda seen: pod_status.ended(seen, rfc3339(now()), _KILLED))
        if grace:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            await self._registry.delete(PODS, *key, options=options)

    async def _write(self, key: Key, pod: Obj, status_of: Callable[[Obj], Obj | None]) -> None:
        uid = pod["metadata"]["uid"]

        def change(seen: Obj) -> Obj | None:
            if seen["metadata"]["uid"] != uid or at(seen, "status", "phase") in pod_status.FINISHED:
                return None
            status = status_of(seen)
            return {**seen, "status": status} if status is not None else None

        await self._registry.modify(PODS, *key, change, subresource="status")


def _pod_address(number: int) -> str:
    """The address of the pod that was started as the `number`-th."""
    return f"10.{_POD_NETWORK + (number >> 16) % 8}.{number >> 8 & 255}.{number & 255}"


def _number_of(address: str) -> int:
    """The number of a pod with this address, below 2^19; 0 for an address of another form."""
    parts = address.split(".")
    if len(parts) != 4 or parts[0] != "10" or not all(part.isdecimal() for part in parts):
        return 0
    high, middle, low = map(int, parts[1:])
    return (high - _POD_NETWORK) << 16 | middle << 8 | low if high >= _POD_NETWORK else 0


def _address_of(node: Obj) -> str:
    """The node's InternalIP; loopback if the node has no addresses."""
    addresses = at(node, "status", "addresses") or ()
    return next((str(a["address"]) for a in addresses if a.get("type") == "InternalIP"), "127.0.0.1")


def _age(pod: Obj) -> float:
    """Seconds since the pod started."""
    text = at(pod, "status", "startTime")
    return now().timestamp() - parse_time(text) if text else 0.0
