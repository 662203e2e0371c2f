"""The agents of all nodes at once: bound pods start, run as long as their annotation says, and end.

Store events put pod keys on a queue that one task drains; all future ends share one timer. There is no task
and no timer per pod, so thousands of pods per second cost little more than their status writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sandbox import pod_status
from sandbox.builtin import NODES, PODS
from sandbox.deadlines import Deadlines
from sandbox.errors import StatusError
from sandbox.key_queue import KeyQueue
from sandbox.node_use import Key, NodeUse, asked_by
from sandbox.objects import Obj, at, now, rfc3339
from sandbox.registry import Registry
from sandbox.store import EventType
from scheduler_core.errors import ModelError
from scheduler_core.model.resources import parse_resource_list

_LOG = logging.getLogger(__name__)
_KILLED = 143


@dataclass(frozen=True, slots=True)
class _End:
    """A pod's containers end: because their time is up, or because a deleted pod has stopped."""

    key: Key
    uid: str
    stopped: bool


class Kubelet:
    """Runs the pods of every node that exists. `start` once on the server's loop, `stop` at the end."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queue: KeyQueue[Key] = KeyQueue(self._handle, "kubelet")
        self._ends: Deadlines[_End] = Deadlines(self._on_end)
        self._due: dict[Key, _End] = {}
        self._armed: dict[Key, _End] = {}
        self._use: dict[str, NodeUse] = {}
        self._capacity: dict[str, dict[str, int]] = {}
        self._address: dict[str, str] = {}
        self._unsubscribe: list[Callable[[], None]] = []
        self._started = 0

    def start(self) -> None:
        """Begin with the nodes and pods that exist."""
        store = self._registry.store
        self._unsubscribe = [store.subscribe(NODES, self._on_node), store.subscribe(PODS, self._on_pod)]
        for node in store.iterate(NODES):
            self._learn(node)
        for pod in store.iterate(PODS):
            self._on_pod("ADDED", pod, None)
        self._queue.start()

    async def stop(self) -> None:
        """End without touching the pods."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._ends.cancel()
        await self._queue.stop()

    def _on_node(self, event: EventType, node: Obj, old: Obj | None) -> None:
        if event == "DELETED":
            self._capacity.pop(node["metadata"]["name"], None)
            self._address.pop(node["metadata"]["name"], None)
            return
        self._learn(node)
        if event == "ADDED":
            for pod in self._registry.store.iterate(PODS):
                if pod["spec"].get("nodeName") == node["metadata"]["name"]:
                    self._on_pod("MODIFIED", pod, None)

    def _learn(self, node: Obj) -> None:
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
        if event == "DELETED" or at(pod, "status", "phase") in pod_status.FINISHED:
            self._armed.pop(key, None)
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
                await self._end_deleted(key, pod)  # also where the node is gone: nobody else would do it
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
            await self._keep(key, pod)

    async def _start_pod(self, key: Key, pod: Obj) -> None:
        node = pod["spec"]["nodeName"]
        use = self._use.setdefault(node, NodeUse())
        asked = asked_by(pod)
        use.drop(key)
        short = use.shortage(asked, self._capacity[node])
        if short:
            await self._write(key, pod, lambda seen: pod_status.rejected(seen, rfc3339(now()), *short))
            return
        use.put(key, asked)
        self._arm(key, pod, 0.0)
        self._started += 1
        address = f"10.{244 + (self._started >> 16) % 8}.{self._started >> 8 & 255}.{self._started & 255}"
        host = self._address[node]
        await self._write(key, pod, lambda seen: pod_status.running(seen, rfc3339(now()), address, host))

    async def _keep(self, key: Key, pod: Obj) -> None:
        if key not in self._armed:
            self._use.setdefault(pod["spec"]["nodeName"], NodeUse()).put(key, asked_by(pod))
            self._arm(key, pod, _age(pod))
        if self._due.pop(key, None):
            lifetime = pod_status.lifetime_of(pod) or (0.0, 0, "")
            await self._write(key, pod, lambda seen: pod_status.ended(seen, rfc3339(now()), *lifetime[1:]))
        elif pod_status.resized(pod):
            self._use[pod["spec"]["nodeName"]].put(key, asked_by(pod))
            await self._write(key, pod, pod_status.resized)

    def _arm(self, key: Key, pod: Obj, age: float) -> None:
        end = self._armed[key] = _End(key, pod["metadata"]["uid"], stopped=False)
        lifetime = pod_status.lifetime_of(pod)
        if lifetime:
            self._ends.push(max(0.0, lifetime[0] - age), end)

    def _on_end(self, end: _End) -> None:
        if self._armed.get(end.key) == end:
            self._due[end.key] = end
            self._queue.put(end.key)

    async def _end_deleted(self, key: Key, pod: Obj) -> None:
        meta = pod["metadata"]
        grace = meta.get("deletionGracePeriodSeconds") or 0
        seconds = min(pod_status.seconds_of(pod, pod_status.STOP_SECONDS) or 0.0, grace)
        end = _End(key, meta["uid"], stopped=True)
        if seconds and self._due.get(key) != end:
            if self._armed.get(key) != end:
                self._armed[key] = end
                self._ends.push(seconds, end)
            return
        if at(pod, "status", "phase") not in pod_status.FINISHED:
            # As the real kubelet does: a pod reaches a final phase before it goes.
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


def _address_of(node: Obj) -> str:
    """The node's InternalIP; loopback for one that was registered without addresses."""
    addresses = at(node, "status", "addresses") or ()
    return next((str(a["address"]) for a in addresses if a.get("type") == "InternalIP"), "127.0.0.1")


def _age(pod: Obj) -> float:
    """Seconds since the pod started."""
    text = at(pod, "status", "startTime")
    return now().timestamp() - datetime.fromisoformat(text).timestamp() if text else 0.0
