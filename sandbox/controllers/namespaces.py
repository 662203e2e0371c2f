"""Namespaces: each gets its default ServiceAccount; one being deleted takes its contents with it."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.builtin import NAMESPACES, PODS, SERVICE_ACCOUNTS
from sandbox.controllers.controller import Controller
from sandbox.errors import StatusError
from sandbox.objects import Obj, at
from sandbox.store import EventType

FINALIZER = "kubernetes"


class NamespaceController(Controller[str]):
    """Keys are names of namespaces."""

    def subscribe(self) -> list[Callable[[], None]]:
        for obj in self.store.iterate(NAMESPACES):
            self.enqueue(obj["metadata"]["name"])
        return [
            self.store.subscribe(NAMESPACES, self._on_namespace),
            self.store.subscribe(None, self._on_object),
        ]

    def _on_namespace(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        if event != "DELETED":
            self.enqueue(obj["metadata"]["name"])

    def _on_object(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        place = obj["metadata"].get("namespace")
        if event == "DELETED" and place:
            self.enqueue(place)

    async def reconcile(self, key: str) -> float | None:
        """Create what a new namespace needs, or empty a terminating one and let it go."""
        namespace = self.store.get(NAMESPACES, "", key)
        if namespace is None:
            return None
        if not namespace["metadata"].get("deletionTimestamp"):
            await self._furnish(key)
            return None
        if await self._empty(key):
            await self._finalize(key)
        return None

    async def _furnish(self, name: str) -> None:
        if self.store.get(SERVICE_ACCOUNTS, name, "default") is None:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            await self.registry.create(SERVICE_ACCOUNTS, account, namespace=name)

    async def _empty(self, name: str) -> bool:
        """Delete every object; whether nothing is left."""
        seen: set[str] = set()
        refused: StatusError | None = None
        # Pods go first, so that nothing they use disappears under them.
        for kind in [PODS, *self.registry.kinds]:
            if not kind.namespaced or kind.storage in seen:
                continue
            seen.add(kind.storage)
            for obj in self.store.list(kind, name):
                if obj["metadata"].get("deletionTimestamp"):
                    continue
                try:
                    await self.registry.delete(
                        kind, name, obj["metadata"]["name"], options={"propagationPolicy": "Background"}
                    )
                except StatusError as error:
                    refused = refused if error.reason == "NotFound" else error
        if refused:
            raise refused
        return not any(self.store.count(kind, name) for kind in self.registry.kinds if kind.namespaced)

    async def _finalize(self, name: str) -> None:
        def release(seen: Obj) -> Obj:
            left = [item for item in at(seen, "spec", "finalizers") or () if item != FINALIZER]
            return {**seen, "spec": {**(seen.get("spec") or {}), "finalizers": left}}

        await self.registry.modify(NAMESPACES, "", name, release, subresource="finalize")
