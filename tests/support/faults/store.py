"""The state of the scripted API server: objects with versions, their history, and the faults in store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, str, str]


@dataclass
class Fault:
    """What the next `times` matching requests get instead of the real thing.

    `verb` is list, watch, or an HTTP method. `status` answers with that code; `silent` never answers;
    `late` does the work after so many seconds;
    `lose` does the work and closes without an answer; `lines` are sent at the start of a watch;
    `cut_after` breaks a watch after so many events, 0 at once; `mute` sends a watch's head and nothing more.
    """

    verb: str
    times: int = 1
    status: int = 0
    reason: str = ""
    retry_after: int | None = None
    silent: bool = False
    late: float = 0.0
    lose: bool = False
    mute: bool = False
    lines: tuple[bytes, ...] = ()
    cut_after: int | None = None
    unless: Callable[[str], bool] = lambda path: False


@dataclass
class Request:
    """One request as it came in."""

    at: float
    verb: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


class FaultStore:
    """Objects by (plural, namespace, name); every change has a version and wakes `changed`."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []
        self.version = 100
        self.compacted = 0
        self.requests: list[Request] = []
        self.absent: set[str] = set()
        self.connections = 0
        self.repeat_events = 1
        self.bookmarks = True
        self.changed = threading.Condition(threading.RLock())
        self._faults: list[Fault] = []

    def fail(self, *faults: Fault) -> None:
        with self.changed:
            self._faults.extend(faults)

    def take_fault(self, verb: str, path: str) -> Fault | None:
        with self.changed:
            for fault in self._faults:
                if fault.verb == verb and fault.times > 0 and not fault.unless(path):
                    fault.times -= 1
                    return fault
        return None

    def answers_nothing(self, verb: str) -> bool:
        """Whether the next request with this verb is met with silence."""
        with self.changed:
            fault = next((fault for fault in self._faults if fault.verb == verb and fault.times > 0), None)
        return fault is not None and fault.silent

    def record(self, request: Request) -> None:
        with self.changed:
            self.requests.append(request)

    def count(self, verb: str) -> int:
        with self.changed:
            return sum(request.verb == verb for request in self.requests)

    def put(self, plural: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        """Create or change an object."""
        with self.changed:
            old = self.objects.get((plural, namespace, name))
            self.version += 1
            uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
            base = {k: v for k, v in (old or {}).items() if k != "metadata"}
            metadata = {"name": name, "uid": uid, "resourceVersion": str(self.version)}
            if namespace:
                metadata["namespace"] = namespace
            obj = {**base, **fields, "metadata": metadata}
            self.objects[plural, namespace, name] = obj
            self._log("MODIFIED" if old else "ADDED", plural, obj)
            return obj

    def remove(self, plural: str, namespace: str, name: str) -> None:
        with self.changed:
            old = self.objects.pop((plural, namespace, name))
            self.version += 1
            metadata = {**old["metadata"], "resourceVersion": str(self.version)}
            self._log("DELETED", plural, {**old, "metadata": metadata})

    def compact(self) -> None:
        """Forget the past: older versions are answered with 410."""
        with self.changed:
            self.compacted = self.version

    def restore(self, version: int) -> None:
        """Go back in time like an etcd restored from a backup: versions restart lower, history is empty."""
        with self.changed:
            self.version = self.compacted = version
            self.history.clear()

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Hold back watch events while several changes are made."""
        with self.changed:
            yield

    def truth(self, plural: str) -> dict[str, str]:
        """key -> resourceVersion of what exists."""
        with self.changed:
            return {
                f"{ns}/{name}" if ns else name: obj["metadata"]["resourceVersion"]
                for (kind, ns, name), obj in self.objects.items()
                if kind == plural
            }

    def _log(self, type_: str, plural: str, obj: dict[str, Any]) -> None:
        self.history.append((self.version, type_, plural, obj))
        self.changed.notify_all()


def status_body(code: int, reason: str, message: str) -> dict[str, Any]:
    """A metav1.Status of failure."""
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def refusal(code: int, reason: str, message: str) -> tuple[int, Any]:
    return code, status_body(code, reason, message)


def carry_out(owner: FaultStore, verb: str, key: Key, sub: str, body: Any) -> tuple[int, Any]:
    """Do what the request says, with the preconditions of a real server."""
    plural, namespace, name = key
    if verb == "POST" and not name:
        name = body["metadata"]["name"]
        if (plural, namespace, name) in owner.objects:
            return refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
        return 201, owner.put(plural, namespace, name, **_fields(body))
    old = owner.objects.get(key)
    if old is None:
        return refusal(404, "NotFound", f'{plural} "{name}" not found')
    if verb == "GET":
        return 200, old
    given = (body or {}).get("preconditions" if verb == "DELETE" else "metadata") or {}
    for part in ("uid", "resourceVersion"):
        if given.get(part) and given[part] != old["metadata"][part]:
            if verb == "PATCH" and part == "uid":
                # As a real server does: it takes the uid for an attempt to change it.
                code, status = refusal(422, "Invalid", "metadata.uid: field is immutable")
                return code, {**status, "details": {"causes": [{"field": "metadata.uid"}]}}
            return refusal(409, "Conflict", f"Precondition failed: {part} {given[part]}")
    if verb == "DELETE":
        owner.remove(plural, namespace, name)
        return 200, {"kind": "Status", "status": "Success"}
    if sub == "binding":
        if old.get("spec", {}).get("nodeName"):
            return refusal(409, "Conflict", f"pod {name} is already assigned to node")
        owner.put(plural, namespace, name, spec={**old.get("spec", {}), "nodeName": body["target"]["name"]})
        return 201, {"kind": "Status", "status": "Success"}
    return 200, owner.put(plural, namespace, name, **_fields(body))


def _fields(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "metadata"}
