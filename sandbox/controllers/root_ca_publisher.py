"""Root CA publisher: keeps the ConfigMap `kube-root-ca.crt` with the API server's CA in every namespace."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.controllers.controller import SandboxController
from sandbox.errors import ignoring
from sandbox.kinds.builtin import CONFIG_MAPS, NAMESPACES
from sandbox.objects import Obj, copy_json
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry

NAME = "kube-root-ca.crt"
_NOTE = {"kubernetes.io/description": "CA bundle that verifies the certificate of the API server."}


class RootCaPublisher(SandboxController[str]):
    """Keys are names of namespaces; `authority` is PEM. Changed or deleted ConfigMaps are restored."""

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
        """Create or restore the ConfigMap of a namespace, unless the namespace is terminating."""
        namespace = self.store.get(NAMESPACES, "", key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        data = {"ca.crt": self._authority}
        if self.store.get(CONFIG_MAPS, key, NAME) is None:
            meta = {"name": NAME, "annotations": copy_json(_NOTE)}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            with ignoring("AlreadyExists"):
                await self.registry.create(CONFIG_MAPS, body, namespace=key)
            return None

        def change(seen: Obj) -> Obj | None:
            return None if seen.get("data") == data else {**seen, "data": data}

        await self.registry.modify(CONFIG_MAPS, key, NAME, change)
        return None
