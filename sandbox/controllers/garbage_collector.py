"""Garbage collector: deletes or orphans the dependents of deleted owners by propagation policy."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.controllers.controller import SandboxController
from sandbox.controllers.owner_index import OwnerIndex, Ref
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, with_meta
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


def _is_foreground(obj: Obj) -> bool:
    """True if the deletion of an object waits for its dependents."""
    meta = obj["metadata"]
    return bool(meta.get("deletionTimestamp")) and FOREGROUND in (meta.get("finalizers") or ())


class GarbageCollector(SandboxController[Ref]):
    """Keys are objects: dependents to check, and owners whose deletion waits for their dependents."""

    def __init__(self, registry: Registry, owners: OwnerIndex) -> None:
        super().__init__(registry)
        self.owners = owners

    def subscribe(self) -> list[Callable[[], None]]:
        return [self.store.subscribe(None, self._on_event)]

    def _on_event(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        meta = obj["metadata"]
        if event == "DELETED":
            for dependent in self.owners.refs(meta["uid"]):
                self.enqueue(dependent)
            self._enqueue_waiting_owners(obj)
            return
        deleting = meta.get("deletionTimestamp") and meta.get("finalizers")
        owned = meta.get("ownerReferences") and (
            event == "ADDED"
            or old is None
            or old["metadata"].get("ownerReferences") != meta["ownerReferences"]
        )
        if deleting or owned:
            ref = self.owners.ref(obj)
            if ref:
                self.enqueue(ref)

    def _enqueue_waiting_owners(self, obj: Obj) -> None:
        for owner in obj["metadata"].get("ownerReferences") or ():
            found = self._owner(owner, obj["metadata"].get("namespace", ""))
            if found and found[1]["metadata"].get("finalizers"):
                ref = self.owners.ref(found[1])
                if ref:
                    self.enqueue(ref)

    def _owner(self, owner_ref: Obj, namespace: str) -> tuple[ApiKind, Obj] | None:
        """The existing object of an owner reference; None if its UID differs."""
        kind = self.registry.kinds.by_api_version(owner_ref["apiVersion"], owner_ref["kind"])
        if kind is None:
            return None
        obj = self.store.get(kind, namespace if kind.namespaced else "", owner_ref["name"])
        return (kind, obj) if obj is not None and obj["metadata"]["uid"] == owner_ref["uid"] else None

    async def _is_alive(self, owner_ref: Obj, namespace: str) -> bool:
        """True if an owner exists or cannot be looked up; dependents of unknown owners are not deleted."""
        if self._owner(owner_ref, namespace):
            return True
        kind = self.registry.kinds.by_api_version(owner_ref["apiVersion"], owner_ref["kind"])
        if kind is None:
            return True
        found = await self.registry.read(kind, namespace if kind.namespaced else "", owner_ref["name"])
        return found is not None and found["metadata"]["uid"] == owner_ref["uid"]

    async def reconcile(self, key: Ref) -> float | None:
        """Delete a dependent without owners, or handle an owner's finalizer."""
        kind = self.registry.kinds.by_storage(key.storage)
        obj = self.store.get(kind, key.namespace, key.name) if kind else None
        if kind is None or obj is None:
            return None
        finalizers = obj["metadata"].get("finalizers") or ()
        if _is_foreground(obj):
            await self._delete_foreground(kind, obj)
        elif obj["metadata"].get("deletionTimestamp") and ORPHAN in finalizers:
            await self._orphan(kind, obj)
        elif not obj["metadata"].get("deletionTimestamp"):
            await self._collect(kind, obj)
        return None

    def _waits(self, owner_ref: Obj, namespace: str) -> bool:
        """True if an owner is being deleted in the foreground."""
        found = self._owner(owner_ref, namespace)
        return found is not None and _is_foreground(found[1])

    async def _collect(self, kind: ApiKind, obj: Obj) -> None:
        """Keep a dependent for its other owners, or delete it if no owner remains."""
        meta = obj["metadata"]
        place = meta.get("namespace", "")
        references = meta.get("ownerReferences") or []
        living = [ref for ref in references if await self._is_alive(ref, place)]
        staying = [ref for ref in living if not self._waits(ref, place)]
        if len(staying) == len(references):
            return
        if staying:
            await self._keep_owners(kind, obj, staying)
            return
        policy = "Background"
        if living and self.owners.refs(meta["uid"]):
            policy = "Foreground"
            if any(_is_foreground(dependent) for _, dependent in self._dependents(obj)):
                # Owners may wait for each other in a cycle; clearing blockOwnerDeletion breaks it.
                unblocked = [{**ref, "blockOwnerDeletion": False} for ref in references]
                await self._keep_owners(kind, obj, unblocked)
        options = {"propagationPolicy": policy, "preconditions": {"uid": meta["uid"]}}
        await self.registry.delete(kind, place, meta["name"], options=options)

    async def _keep_owners(self, kind: ApiKind, obj: Obj, references: list[Obj]) -> None:
        meta = obj["metadata"]

        def change(seen: Obj) -> Obj:
            return with_meta(seen, ownerReferences=references or None)

        await self.registry.modify(kind, meta.get("namespace", ""), meta["name"], change)

    async def _delete_foreground(self, kind: ApiKind, owner: Obj) -> None:
        for dependent_kind, obj in self._dependents(owner):
            if not obj["metadata"].get("deletionTimestamp"):
                await self._collect(dependent_kind, obj)
        uid = owner["metadata"]["uid"]
        left = [ref for _, obj in self._dependents(owner) for ref in obj["metadata"]["ownerReferences"]]
        if not any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in left):
            await self._finalize(kind, owner, FOREGROUND)

    async def _orphan(self, kind: ApiKind, owner: Obj) -> None:
        for dependent_kind, obj in self._dependents(owner):
            references = obj["metadata"]["ownerReferences"]
            left = [ref for ref in references if ref["uid"] != owner["metadata"]["uid"]]
            await self._keep_owners(dependent_kind, obj, left)
        await self._finalize(kind, owner, ORPHAN)

    def _dependents(self, owner: Obj) -> list[tuple[ApiKind, Obj]]:
        found = []
        for ref in self.owners.refs(owner["metadata"]["uid"]):
            kind = self.registry.kinds.by_storage(ref.storage)
            obj = self.store.get(kind, ref.namespace, ref.name) if kind else None
            if kind and obj:
                found.append((kind, obj))
        return found

    async def _finalize(self, kind: ApiKind, owner: Obj, finalizer: str) -> None:
        meta = owner["metadata"]

        def change(seen: Obj) -> Obj:
            left = [name for name in seen["metadata"].get("finalizers") or () if name != finalizer]
            return with_meta(seen, finalizers=left or None)

        await self.registry.modify(kind, meta.get("namespace", ""), meta["name"], change)
