"""What Job, ReplicaSet and StatefulSet share: finding their pods, making and removing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.builtin import PODS
from sandbox.controllers.controller import Controller
from sandbox.controllers.owners import OwnerIndex, controller_of, owned_by
from sandbox.controllers.recorder import Recorder
from sandbox.errors import StatusError
from sandbox.kinds import ApiKind
from sandbox.objects import Obj, at, copy_json
from sandbox.pod_status import FINISHED
from sandbox.registry import Registry
from sandbox.store import EventType

Key = tuple[str, str]
"""Namespace and name of the workload."""


class WorkloadController(Controller[Key]):
    """Reconciles objects of `kind` whenever they or what they control (`parts`) change."""

    kind: ApiKind
    parts: ApiKind = PODS
    component: str

    def __init__(self, registry: Registry, owners: OwnerIndex) -> None:
        super().__init__(registry)
        self.owners = owners
        self.recorder = Recorder(registry, self.component)

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
        # A part that loses its owner is missed by the one it had.
        for owner in filter(None, (controller_of(state) for state in (obj, old) if state)):
            if owner.get("kind") == self.kind.kind:
                self.enqueue((obj["metadata"]["namespace"], owner["name"]))

    def current(self, key: Key) -> Obj | None:
        """The workload, unless it is gone or going."""
        obj = self.store.get(self.kind, *key)
        return None if obj is None or obj["metadata"].get("deletionTimestamp") else obj

    def pods_of(self, owner: Obj) -> list[Obj]:
        """Every pod that the workload controls, in name order."""
        uid = owner["metadata"]["uid"]
        pods = self.owners.dependents(PODS, uid)
        return [pod for pod in pods if (controller_of(pod) or {}).get("uid") == uid]

    async def create_pod(self, owner: Obj, pod: Obj) -> Obj:
        """Create a pod through admission. A refusal becomes a FailedCreate event, and is raised again."""
        try:
            made = await self.registry.create(PODS, pod, owned=True)
        except StatusError as error:
            await self.recorder.record(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        name = made["metadata"]["name"]
        await self.recorder.record(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return made

    async def delete_pod(self, owner: Obj, pod: Obj) -> None:
        """Delete a pod of the workload; one that is gone already is fine."""
        meta = pod["metadata"]
        try:
            await self.registry.delete(
                PODS, meta["namespace"], meta["name"], options={"preconditions": {"uid": meta["uid"]}}
            )
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return
        await self.recorder.record(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {meta['name']}")

    async def write_status(self, obj: Obj, status: Obj) -> None:
        """Write a status that differs from the stored one; an object that is gone is fine."""
        meta = obj["metadata"]

        def change(seen: Obj) -> Obj | None:
            if seen["metadata"]["uid"] != meta["uid"] or seen.get("status") == status:
                return None
            return {**seen, "status": status}

        try:
            await self.registry.modify(
                self.kind, meta["namespace"], meta["name"], change, subresource="status"
            )
        except StatusError as error:
            if error.reason != "NotFound":
                raise


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
    """`status.phase`, Pending where it is not set."""
    return at(pod, "status", "phase") or "Pending"


def is_active(pod: Obj) -> bool:
    """Neither finished nor being deleted."""
    return phase_of(pod) not in FINISHED and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Obj) -> bool:
    """Whether the Ready condition is true."""
    conditions = at(pod, "status", "conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
