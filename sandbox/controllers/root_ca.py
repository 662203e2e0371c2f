"""The ConfigMap `kube-root-ca.crt` of every namespace: what pods trust the API server by."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.builtin import CONFIG_MAPS, NAMESPACES
from sandbox.controllers.controller import Controller
from sandbox.errors import StatusError
from sandbox.objects import Obj, copy_json
from sandbox.registry import Registry
from sandbox.store import EventType

NAME = "kube-root-ca.crt"
_NOTE = {"kubernetes.io/description": "The authority of the API server, for clients inside the cluster."}


class RootCaPublisher(Controller[str]):
    """Keys are names of namespaces. `authority` is PEM; whoever changes or deletes a copy gets it back."""

    def __init__(self, registry: Registry, authority: str) -> None:
        super().__init__(registry)
        self._authority = authority

    def subscribe(self) -> list[Callable[[], None]]:
        for namespace in self.store.iterate(NAMESPACES):
            self.enqueue(namespace["metadata"]["name"])
        return [
            self.store.subscribe(NAMESPACES, self._on_namespace),
            self.store.subscribe(CONFIG_MAPS, self._on_config_map),
        ]

    def _on_namespace(self, event: EventType, namespace: Obj, old: Obj | None) -> None:
        if event == "ADDED":
            self.enqueue(namespace["metadata"]["name"])

    def _on_config_map(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        if event != "ADDED" and obj["metadata"]["name"] == NAME:
            self.enqueue(obj["metadata"]["namespace"])

    async def reconcile(self, key: str) -> float | None:
        """Create or correct the namespace's copy; a namespace that is going gets none."""
        namespace = self.store.get(NAMESPACES, "", key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        data = {"ca.crt": self._authority}
        if self.store.get(CONFIG_MAPS, key, NAME) is None:
            meta = {"name": NAME, "annotations": copy_json(_NOTE)}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            await self._create(body, key)
            return None

        def change(seen: Obj) -> Obj | None:
            return None if seen.get("data") == data else {**seen, "data": data}

        await self.registry.modify(CONFIG_MAPS, key, NAME, change)
        return None

    async def _create(self, body: Obj, namespace: str) -> None:
        try:
            await self.registry.create(CONFIG_MAPS, body, namespace=namespace)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
