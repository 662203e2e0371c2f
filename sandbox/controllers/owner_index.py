"""Index of dependents by owner UID, updated by store events and shared by all controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.objects import Obj
from sandbox.store.object_store import EventType, ObjectStore


class Ref(NamedTuple):
    """Key of one stored object."""

    storage: str
    namespace: str
    name: str


class OwnerIndex:
    """Dependents by their owner's uid."""

    def __init__(self, store: ObjectStore, kinds: KindTable) -> None:
        self._store = store
        self._kinds = kinds
        self._by_owner: dict[str, set[Ref]] = {}
        seen: set[str] = set()
        for kind in kinds:
            if kind.storage not in seen:
                seen.add(kind.storage)
                for obj in store.iterate(kind):
                    self._on_event("ADDED", obj, None)
        self.stop: Callable[[], None] = store.subscribe(None, self._on_event)

    def _on_event(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        owners = obj["metadata"].get("ownerReferences") or ()
        before = (old["metadata"].get("ownerReferences") or ()) if old else ()
        if not owners and not before:
            return
        ref = self.ref(obj)
        if ref is None:
            return
        for owner in before:
            self._by_owner.get(owner.get("uid", ""), set()).discard(ref)
            if not self._by_owner.get(owner.get("uid", ""), True):
                del self._by_owner[owner["uid"]]
        if event != "DELETED":
            for owner in owners:
                self._by_owner.setdefault(owner.get("uid", ""), set()).add(ref)

    def ref(self, obj: Obj) -> Ref | None:
        """The key of an object; None for a kind that is no longer served."""
        kind = self._kinds.of(obj)
        meta = obj["metadata"]
        return Ref(kind.storage, meta.get("namespace", ""), meta["name"]) if kind else None

    def refs(self, owner_uid: str) -> list[Ref]:
        """The keys of all dependents of an owner, sorted."""
        return sorted(self._by_owner.get(owner_uid, ()))

    def dependents(self, kind: ApiKind, owner_uid: str) -> Iterator[Obj]:
        """The stored dependents of one kind, in name order."""
        for ref in self.refs(owner_uid):
            if ref.storage == kind.storage:
                obj = self._store.get(kind, ref.namespace, ref.name)
                if obj is not None:
                    yield obj


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference that has `controller: true`."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def owned_by(owner: Obj) -> list[Obj]:
    """The `ownerReferences` of an object that `owner` controls."""
    meta = owner["metadata"]
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
