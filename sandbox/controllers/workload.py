"""Base class of workload controllers: finds, creates and deletes the pods of a workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.controllers.controller import SandboxController
from sandbox.controllers.event_recorder import SandboxRecorder
from sandbox.controllers.owner_index import OwnerIndex, controller_of, owned_by
from sandbox.errors import StatusError, ignoring
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import PODS
from sandbox.nodes.pod_status import FINISHED
from sandbox.objects import Obj, at, copy_json
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry

Key = tuple[str, str]
"""Namespace and name of the workload."""


class WorkloadController(SandboxController[Key]):
    """Reconciles objects of `kind` after changes of them and of the objects that they control (`parts`)."""

    kind: ApiKind
    parts: ApiKind = PODS
    component: str

    def __init__(self, registry: Registry, owners: OwnerIndex) -> None:
        super().__init__(registry)
        self.owners = owners
        self.recorder = SandboxRecorder(registry, self.component)

    def subscribe(self) -> list[Callable[[], None]]:
        for obj in self.store.iterate(self.kind):
            self._on_own("ADDED", obj, None)
        return [
            self.store.subscribe(self.kind, self._on_own),
            self.store.subscribe(self.parts, self._on_part),
        ]

    def _on_own(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        if event != "DELETED":
            self.enqueue((obj["metadata"]["namespace"], obj["metadata"]["name"]))

    def _on_part(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        # The old owner must notice that it has lost the object.
        for owner in filter(None, (controller_of(state) for state in (obj, old) if state)):
            if owner.get("kind") == self.kind.kind:
                self.enqueue((obj["metadata"]["namespace"], owner["name"]))

    def current(self, key: Key) -> Obj | None:
        """The workload; None if it does not exist or is being deleted."""
        obj = self.store.get(self.kind, *key)
        return None if obj is None or obj["metadata"].get("deletionTimestamp") else obj

    def pods_of(self, owner: Obj) -> list[Obj]:
        """All pods that the workload controls, in name order."""
        uid = owner["metadata"]["uid"]
        pods = self.owners.dependents(PODS, uid)
        return [pod for pod in pods if (controller_of(pod) or {}).get("uid") == uid]

    async def create_pod(self, owner: Obj, pod: Obj) -> Obj:
        """Create a pod. A refusal is recorded as a FailedCreate event and raised."""
        try:
            made = await self.registry.create(PODS, pod, owned=True)
        except StatusError as error:
            await self.recorder.record(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        name = made["metadata"]["name"]
        await self.recorder.record(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return made

    async def delete_pod(self, owner: Obj, pod: Obj) -> None:
        """Delete a pod of the workload; a missing pod is not an error."""
        meta = pod["metadata"]
        with ignoring("NotFound", "Conflict"):
            await self.registry.delete(
                PODS, meta["namespace"], meta["name"], options={"preconditions": {"uid": meta["uid"]}}
            )
            await self.recorder.record(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {meta['name']}")

    async def write_status(self, obj: Obj, status: Obj) -> None:
        """Write a status if it has changed; a missing object is not an error."""
        meta = obj["metadata"]

        def change(seen: Obj) -> Obj | None:
            if seen["metadata"]["uid"] != meta["uid"] or seen.get("status") == status:
                return None
            return {**seen, "status": status}

        with ignoring("NotFound"):
            await self.registry.modify(
                self.kind, meta["namespace"], meta["name"], change, subresource="status"
            )


def pod_from(owner: Obj, template: Obj, **meta: Any) -> Obj:
    """A pod from a workload's template; `meta` sets name or generateName."""
    found = copy_json(template)
    labels = dict(at(found, "metadata", "labels") or {})
    annotations = dict(at(found, "metadata", "annotations") or {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": owned_by(owner),
            **meta,
        },
        "spec": found.get("spec") or {},
    }


def phase_of(pod: Obj) -> str:
    """`status.phase`, or Pending if it is not set."""
    return at(pod, "status", "phase") or "Pending"


def is_active(pod: Obj) -> bool:
    """True if the pod has not finished and is not being deleted."""
    return phase_of(pod) not in FINISHED and not pod["metadata"].get("deletionTimestamp")
