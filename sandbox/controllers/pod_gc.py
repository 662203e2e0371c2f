"""Pod garbage collector: fails and removes pods whose node has been missing for `quarantine` seconds."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.controllers.controller import SandboxController
from sandbox.errors import ignoring
from sandbox.kinds.builtin import NODES, PODS
from sandbox.nodes.pod_status import FINISHED
from sandbox.objects import Obj, at, condition_now, now, with_condition
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry
from scheduler_core.model.names import DISRUPTION_TARGET

QUARANTINE = 40.0
"""Seconds that a node may be missing, as in kube-controller-manager."""


class PodGarbageCollector(SandboxController[str]):
    """Keys are names of nodes."""

    def __init__(self, registry: Registry, quarantine: float = QUARANTINE) -> None:
        super().__init__(registry)
        self._quarantine = quarantine
        self._gone: dict[str, float] = {}

    def subscribe(self) -> list[Callable[[], None]]:
        return [self.store.subscribe(NODES, self._on_node)]

    def _on_node(self, event: EventType, node: Obj, old: Obj | None) -> None:
        name = node["metadata"]["name"]
        if event == "DELETED":
            self._gone[name] = now().timestamp()
            self.enqueue(name)
        else:
            self._gone.pop(name, None)

    async def reconcile(self, key: str) -> float | None:
        """Wait for the quarantine of a missing node, then remove its pods."""
        since = self._gone.get(key)
        if since is None:
            return None
        left = since + self._quarantine - now().timestamp()
        if left > 0:
            return left
        for pod in self.store.list(PODS):
            if pod["spec"].get("nodeName") == key:
                await self._remove(pod)
        self._gone.pop(key, None)
        return None

    async def _remove(self, pod: Obj) -> None:
        meta = pod["metadata"]
        place = (meta["namespace"], meta["name"])

        def fail(seen: Obj) -> Obj | None:
            if at(seen, "status", "phase") in FINISHED:
                return None
            message = "PodGC: node no longer exists"
            condition = condition_now(DISRUPTION_TARGET, True, "DeletionByPodGC", message)
            status = with_condition(seen.get("status") or {}, condition)
            return {**seen, "status": {**status, "phase": "Failed"}}

        with ignoring("NotFound", "Conflict"):
            await self.registry.modify(PODS, *place, fail, subresource="status")
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            await self.registry.delete(PODS, *place, options=options)
