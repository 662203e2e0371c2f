"""Event recorder of the controllers: one Event per object, reason and message, with a count."""

from __future__ import annotations

from sandbox.errors import StatusError
from sandbox.kinds.builtin import EVENTS
from sandbox.objects import Obj, now, rfc3339
from sandbox.store.metadata import generated_name
from sandbox.store.registry import Registry


class SandboxRecorder:
    """Writes core/v1 Events of one component. Failed writes are ignored, as in client-go."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry = registry
        self._component = component
        self._names: dict[tuple[str, str, str], tuple[str, str]] = {}

    async def record(self, subject: Obj, kind: str, reason: str, message: str) -> None:
        """Record an event about `subject`; `kind` is Normal or Warning."""
        meta = subject["metadata"]
        key = (meta["uid"], reason, message)
        known = self._names.get(key)
        try:
            if known is None or not await self._count(*known):
                made = await self._create(subject, kind, reason, message)
                if kind == "Warning":  # Normal events happen once and need no count
                    self._names[key] = made
        except StatusError:
            self._names.pop(key, None)

    async def _count(self, namespace: str, name: str) -> bool:
        if self._registry.store.get(EVENTS, namespace, name) is None:
            return False
        moment = rfc3339(now())

        def again(event: Obj) -> Obj:
            return {**event, "count": int(event.get("count") or 1) + 1, "lastTimestamp": moment}

        await self._registry.modify(EVENTS, namespace, name, again)
        return True

    async def _create(self, subject: Obj, kind: str, reason: str, message: str) -> tuple[str, str]:
        meta = subject["metadata"]
        moment = rfc3339(now())
        namespace = meta.get("namespace", "default")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": generated_name(f"{meta['name']}."), "namespace": namespace},
            "involvedObject": {
                "apiVersion": subject["apiVersion"],
                "kind": subject["kind"],
                "name": meta["name"],
                "namespace": meta.get("namespace", ""),
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        stored = await self._registry.create(EVENTS, event, owned=True)
        return namespace, stored["metadata"]["name"]
