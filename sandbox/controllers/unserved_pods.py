"""Events for pods that wait because the scheduler that they name was not started with the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sandbox.controllers.controller import SandboxController
from sandbox.controllers.event_recorder import SandboxRecorder
from sandbox.kinds.builtin import PODS
from sandbox.objects import Obj, at
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry

PATIENCE: Final = 5.0
"""Seconds in which a scheduler that somebody else started would have looked at a pod."""
Key = tuple[str, str, str]
"""Namespace, name and uid of a pod."""


class UnservedPods(SandboxController[Key]):
    """Writes one event on each pod that no scheduler looked at: no node, no condition, nobody of its name.

    `names` are the profiles of the scheduler that the sandbox started, none if it started no scheduler.
    """

    def __init__(self, registry: Registry, names: Sequence[str], patience: float = PATIENCE) -> None:
        super().__init__(registry)
        self._names = names
        self._patience = patience
        self._recorder = SandboxRecorder(registry, "muster-sandbox")

    def subscribe(self) -> list[Callable[[], None]]:
        for pod in self.store.iterate(PODS):
            self._on_pod("ADDED", pod, None)
        return [self.store.subscribe(PODS, self._on_pod)]

    def _on_pod(self, event: EventType, pod: Obj, old: Obj | None) -> None:
        if event == "ADDED" and self._waits(pod):
            meta = pod["metadata"]
            self.enqueue_later(self._patience, (meta["namespace"], meta["name"], meta["uid"]))

    def _waits(self, pod: Obj) -> bool:
        seen = at(pod, "status", "conditions") or pod["metadata"].get("deletionTimestamp")
        return not (seen or pod["spec"].get("nodeName") or pod["spec"].get("schedulerName") in self._names)

    async def reconcile(self, key: Key) -> float | None:
        """Write the event if the pod still waits."""
        pod = self.store.get(PODS, *key[:2])
        if pod is not None and pod["metadata"]["uid"] == key[2] and self._waits(pod):
            text = message(str(pod["spec"].get("schedulerName")), self._names)
            await self._recorder.record(pod, "Warning", "FailedScheduling", text)
        return None


def message(name: str, started: Sequence[str]) -> str:
    """Why a pod with this schedulerName waits, and what helps."""
    cause = f'spec.schedulerName is "{name}", and no scheduler of this name has looked at the pod'
    if not started:
        return f"{cause}: this sandbox started no scheduler. `muster-sandbox up --all` starts Muster's"
    return (
        f"{cause}: this sandbox started {', '.join(started)}. "
        "Name one of these in spec.schedulerName, or start the other scheduler"
    )
