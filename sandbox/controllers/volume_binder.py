"""Volume binder: binds claims to the smallest fitting volume that exists; it does not provision volumes.

A claim of a class with volumeBindingMode WaitForFirstConsumer stays pending until a pod that uses it is
bound, or the scheduler has selected a node for it (annotation `volume.kubernetes.io/selected-node`).
"""

from __future__ import annotations

from collections.abc import Callable

from sandbox.controllers.controller import SandboxController
from sandbox.errors import ignoring
from sandbox.kinds.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from sandbox.kinds.disruption import selects
from sandbox.objects import Obj, at
from sandbox.store.object_store import EventType
from scheduler_core.model.quantity import parse_resource

SELECTED_NODE = "volume.kubernetes.io/selected-node"
Key = tuple[str, str]


class VolumeBinder(SandboxController[Key]):
    """Keys are (namespace, name) of claims."""

    def subscribe(self) -> list[Callable[[], None]]:
        self._enqueue_pending()
        return [
            self.store.subscribe(PERSISTENT_VOLUME_CLAIMS, self._on_claim),
            self.store.subscribe(PERSISTENT_VOLUMES, self._on_volume),
            self.store.subscribe(PODS, self._on_pod),
        ]

    def _enqueue_pending(self) -> None:
        for claim in self.store.iterate(PERSISTENT_VOLUME_CLAIMS):
            if at(claim, "status", "phase") != "Bound":
                self.enqueue((claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def _on_claim(self, event: EventType, claim: Obj, old: Obj | None) -> None:
        self.enqueue((claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def _on_volume(self, event: EventType, volume: Obj, old: Obj | None) -> None:
        self._enqueue_pending()

    def _on_pod(self, event: EventType, pod: Obj, old: Obj | None) -> None:
        if event == "DELETED" or not pod["spec"].get("nodeName"):
            return
        for name in claims_of(pod):
            self.enqueue((pod["metadata"]["namespace"], name))

    async def reconcile(self, key: Key) -> float | None:
        """Bind a pending claim, or release the volume of a deleted claim."""
        claim = self.store.get(PERSISTENT_VOLUME_CLAIMS, *key)
        if claim is None:
            await self._release(key)
            return None
        if at(claim, "status", "phase") == "Bound" or self._must_wait(key, claim):
            return None
        volume = best_volume(claim, list(self.store.iterate(PERSISTENT_VOLUMES)))
        if volume is not None:
            await self._bind(key, claim, volume)
        return None

    def _must_wait(self, key: Key, claim: Obj) -> bool:
        if (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) or claim["spec"].get("volumeName"):
            return False
        name = claim["spec"].get("storageClassName") or ""
        storage_class = self.store.get(STORAGE_CLASSES, "", name) if name else None
        if not storage_class or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            return False
        return not any(
            pod["spec"].get("nodeName") and key[1] in claims_of(pod)
            for pod in self.store.iterate(PODS, key[0])
        )

    async def _bind(self, key: Key, claim: Obj, volume: Obj) -> None:
        meta = claim["metadata"]
        claim_ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": key[0],
            "name": key[1],
            "uid": meta["uid"],
        }
        name = volume["metadata"]["name"]

        def take(seen: Obj) -> Obj:
            return {**seen, "spec": {**seen["spec"], "claimRef": claim_ref}}

        def use(seen: Obj) -> Obj:
            return {**seen, "spec": {**seen["spec"], "volumeName": name}}

        def bound(seen: Obj) -> Obj:
            return {**seen, "status": {**(seen.get("status") or {}), "phase": "Bound"}}

        def filled(seen: Obj) -> Obj:
            spec = volume["spec"]
            status = {"phase": "Bound", "accessModes": spec.get("accessModes") or []}
            return {**seen, "status": {**status, "capacity": spec.get("capacity") or {}}}

        registry = self.registry
        await registry.modify(PERSISTENT_VOLUMES, "", name, take)
        await registry.modify(PERSISTENT_VOLUMES, "", name, bound, subresource="status")
        await registry.modify(PERSISTENT_VOLUME_CLAIMS, *key, use)
        await registry.modify(PERSISTENT_VOLUME_CLAIMS, *key, filled, subresource="status")

    async def _release(self, key: Key) -> None:
        for volume in self.store.list(PERSISTENT_VOLUMES):
            claim_ref = volume["spec"].get("claimRef") or {}
            if (claim_ref.get("namespace"), claim_ref.get("name")) != key:
                continue
            name = volume["metadata"]["name"]
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                with ignoring("NotFound"):
                    await self.registry.delete(PERSISTENT_VOLUMES, "", name)
            elif at(volume, "status", "phase") != "Released":
                await self.registry.modify(
                    PERSISTENT_VOLUMES,
                    "",
                    name,
                    lambda seen: {**seen, "status": {"phase": "Released"}},
                    subresource="status",
                )


def claims_of(pod: Obj) -> list[str]:
    """Names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return [at(volume, "persistentVolumeClaim", "claimName") or "" for volume in volumes]


def best_volume(claim: Obj, volumes: list[Obj]) -> Obj | None:
    """The volume that is reserved for the claim, or the smallest free volume that fits it."""
    fitting = [volume for volume in volumes if _fits(claim, volume)]
    return min(fitting, key=_preference, default=None)


def _preference(volume: Obj) -> tuple[bool, int, str]:
    spec = volume["spec"]
    return "claimRef" not in spec, _size(spec.get("capacity")), volume["metadata"]["name"]


def _fits(claim: Obj, volume: Obj) -> bool:
    spec, meta = claim["spec"], claim["metadata"]
    claim_ref = volume["spec"].get("claimRef")
    if claim_ref:
        named = (claim_ref.get("namespace"), claim_ref.get("name")) == (meta["namespace"], meta["name"])
        if not named or claim_ref.get("uid", meta["uid"]) != meta["uid"]:
            return False
    if spec.get("volumeName"):
        return bool(spec["volumeName"] == volume["metadata"]["name"])
    if (spec.get("storageClassName") or "") != (volume["spec"].get("storageClassName") or ""):
        return False
    if not set(spec.get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ()):
        return False
    if spec.get("selector") and not selects(spec["selector"], volume["metadata"].get("labels") or {}):
        return False
    return _size(volume["spec"].get("capacity")) >= _size(at(spec, "resources", "requests"))


def _size(amounts: Obj | None) -> int:
    return parse_resource("storage", (amounts or {}).get("storage", "0"))
