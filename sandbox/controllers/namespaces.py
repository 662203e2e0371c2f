"""Namespace controller: creates default ServiceAccounts and empties terminating namespaces."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.controllers.controller import SandboxController
from sandbox.errors import StatusError
from sandbox.initial_objects import create_service_account
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import NAMESPACES, PODS
from sandbox.objects import Obj, at, condition_now, with_condition
from sandbox.store.object_store import EventType

FINALIZER = "kubernetes"


class NamespaceController(SandboxController[str]):
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
        """Create the ServiceAccount of a new namespace, or empty and finalize a terminating one."""
        namespace = self.store.get(NAMESPACES, "", key)
        if namespace is None:
            return None
        if not namespace["metadata"].get("deletionTimestamp"):
            await create_service_account(self.registry, key)
            return None
        refused = await self._delete_contents(key)
        left = self._contents(key)
        if left or refused:
            await self._write_conditions(key, left, refused)
        if refused:
            raise refused
        if not left:
            await self._finalize(key)
        return None

    async def _delete_contents(self, name: str) -> StatusError | None:
        """Delete the pods and, after the last pod is removed, all other objects; returns a refusal."""
        refused = await self._delete_all(PODS, name)
        if refused or self.store.count(PODS, name):
            # Pods go first, because they may use the other objects.
            return refused
        for kind in self._kinds():
            refused = await self._delete_all(kind, name) or refused
        return refused

    async def _delete_all(self, kind: ApiKind, place: str) -> StatusError | None:
        refused: StatusError | None = None
        for obj in self.store.list(kind, place):
            if obj["metadata"].get("deletionTimestamp"):
                continue
            try:
                await self.registry.delete(
                    kind, place, obj["metadata"]["name"], options={"propagationPolicy": "Background"}
                )
            except StatusError as error:
                refused = refused if error.reason == "NotFound" else error
        return refused

    def _kinds(self) -> list[ApiKind]:
        """The namespaced kinds, one version of each."""
        found = {kind.storage: kind for kind in self.registry.kinds if kind.namespaced}
        return list(found.values())

    def _contents(self, name: str) -> list[ApiKind]:
        return [kind for kind in self._kinds() if self.store.count(kind, name)]

    async def _write_conditions(self, name: str, left: list[ApiKind], refused: StatusError | None) -> None:
        """Write the remaining content of the namespace to its conditions."""
        finalizers = {
            finalizer
            for kind in left
            for obj in self.store.list(kind, name)
            for finalizer in obj["metadata"].get("finalizers") or ()
        }
        conditions = [
            _condition("NamespaceDeletionContentFailure", "ContentDeletionFailed", [str(refused or "")]),
            _condition("NamespaceContentRemaining", "SomeResourcesRemain", [kind.storage for kind in left]),
            _condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", sorted(finalizers)),
        ]

        def change(seen: Obj) -> Obj:
            status = seen.get("status") or {}
            for condition in conditions:
                status = with_condition(status, condition)
            return {**seen, "status": status}

        await self.registry.modify(NAMESPACES, "", name, change, subresource="status")

    async def _finalize(self, name: str) -> None:
        def release(seen: Obj) -> Obj:
            left = [item for item in at(seen, "spec", "finalizers") or () if item != FINALIZER]
            return {**seen, "spec": {**(seen.get("spec") or {}), "finalizers": left}}

        await self.registry.modify(NAMESPACES, "", name, release, subresource="finalize")


_GONE = {
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "all was deleted, some of it may be finalized",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "nothing is left in the namespace"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "no finalizer keeps what is left"),
}
"""Reason and message of each condition with the status False."""


def _condition(name: str, reason: str, what: list[str]) -> Obj:
    """A condition that is True if `what` is not empty."""
    text = ", ".join(filter(None, what))
    return condition_now(name, bool(text), *((reason, text) if text else _GONE[name]))
