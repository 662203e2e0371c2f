"""The object store of a simulated cluster, in place of an API server.

It sets uid, resourceVersion, creationTimestamp and the resolved priority, applies the writes of engine and
controllers, and reports changes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from scheduler_core.errors import ConfigError
from scheduler_core.model.kinds import Resource
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Bind, Create, Delete, Evict, Patch, Replace, Write
from scheduler_core.simulate.kinds import full_name, is_namespaced

Key = tuple[str, str, str]
Object = dict[str, Any]


class Change(msgspec.Struct, frozen=True):
    """An object that was added or replaced (`gone` false), or removed."""

    key: Key
    obj: Object
    gone: bool = False


def key_of(obj: Mapping[str, Any]) -> Key:
    """(kind, namespace, name) of an object, or of a reference without a metadata map.

    The kind has its API group where the kinds of several groups have the same name.
    """
    meta = obj.get("metadata") or obj
    kind = str(obj.get("kind"))
    namespace = str(meta.get("namespace") or "default") if is_namespaced(kind) else ""
    return full_name(kind, str(obj.get("apiVersion") or "")), namespace, str(meta.get("name") or "")


def label(key: Key) -> str:
    """`Pod ns/name`: how scenario files name objects."""
    kind, namespace, name = key
    kind = kind.partition(".")[0]
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _key_in(resource: Resource, namespace: str, name: str) -> Key:
    kind = full_name(resource.kind, resource.api_version)
    return kind, namespace if resource.namespaced else "", name


class StoredObject(Protocol):
    """An object that is decoded when somebody needs it."""

    def read(self) -> Object:
        """The object as a dict."""
        ...


class Unread(msgspec.Struct, frozen=True):
    """An object as JSON, as a server listed it; a list's items have no `kind` and `apiVersion`."""

    raw: bytes | msgspec.Raw
    kind: str
    api_version: str

    def read(self) -> Object:
        """The object as a dict."""
        return {"apiVersion": self.api_version, "kind": self.kind} | msgspec.json.decode(self.raw)


class Objects:
    """Objects by kind, namespace and name. `clock()` gives the time, in seconds since the epoch.

    Stored objects are never changed, only replaced: a copy of the store shares them.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._objects: dict[Key, Object | StoredObject] = {}
        self._serial = 0

    def copy(self, clock: Callable[[], float]) -> Objects:
        """The same objects in a store of its own."""
        twin = Objects(clock)
        twin._objects, twin._serial = dict(self._objects), self._serial
        return twin

    def adopt(self, key: Key, obj: StoredObject) -> None:
        """Add or replace an object as a server holds it. It is decoded when somebody needs it."""
        self._objects[key] = obj

    def restore(self, key: Key, obj: Object | None) -> None:
        """Put back what was there before a write; None: nothing was."""
        if obj is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = obj

    def keys(self) -> list[Key]:
        """The keys of all objects, in order of creation."""
        return list(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def _stamp(self) -> str:
        """A time at least a millisecond later than all before."""
        self._serial += 1
        return format_micro_time(self._clock() + self._serial / 1000)

    def get(self, key: Key) -> Object | None:
        """The object, or None."""
        found = self._objects.get(key)
        if found is not None and not isinstance(found, dict):
            found = self._objects[key] = found.read()
        return found

    def _pop(self, key: Key) -> Object:
        found = self._objects.pop(key)
        return found if isinstance(found, dict) else found.read()

    def all(self, kind: str) -> list[Object]:
        """All objects of a kind, of any API group, in order of creation."""
        keys = [key for key in self._objects if key[0].partition(".")[0] == kind]
        return [obj for key in keys if (obj := self.get(key)) is not None]

    def label(self, key: Key) -> str:
        """The label of an object; with the API group if another group has one of this name there."""
        kind, namespace, name = key
        same = (kind.partition(".")[0], namespace, name)
        return f"{kind} {namespace}/{name}" if key != same and same in self._objects else label(key)

    # Writes of a scenario

    def create(self, given: Mapping[str, Any], path: str) -> Change:
        """Add an object; ConfigError if it is there already or has no name."""
        key = key_of(given)
        if not key[2]:
            raise ConfigError(f"{path}.metadata.name", "is required")
        if key in self._objects:
            raise ConfigError(path, f"{label(key)} exists already")
        obj = _as_read(given)
        meta = obj["metadata"]
        stamp = self._stamp()
        meta.setdefault("creationTimestamp", stamp)
        meta.setdefault("uid", label(key).replace(" ", "/"))
        if key[0] == "Pod":
            self._complete_pod(obj, stamp)
        return self._store(key, obj)

    def update(self, given: Mapping[str, Any], path: str) -> Change:
        """Replace an object whole, status included; it keeps uid and creation time unless given."""
        key = key_of(given)
        old = self.get(key)
        if old is None:
            raise ConfigError(path, f"{label(key)} does not exist")
        obj = _as_read(given)
        meta = obj["metadata"]
        for field in ("uid", "creationTimestamp"):
            meta.setdefault(field, old["metadata"][field])
        if key[0] == "Pod":
            self._complete_pod(obj, (old.get("status") or {}).get("startTime") or self._stamp())
        return self._store(key, obj)

    def delete(self, ref: Mapping[str, Any], path: str) -> Change:
        """Remove an object; ConfigError if it is not there."""
        key = key_of(ref)
        if not key[2]:
            raise ConfigError(f"{path}.metadata.name", "is required")
        if key not in self._objects:
            raise ConfigError(path, f"{label(key)} does not exist")
        return Change(key, self._pop(key), gone=True)

    def _complete_pod(self, obj: Object, stamp: str) -> None:
        """Set the fields that admission and the kubelet would set: priority, phase, start time."""
        spec = obj["spec"] = obj.get("spec") or {}
        status = obj["status"] = obj.get("status") or {}
        cls = self.get(("PriorityClass", "", str(spec.get("priorityClassName") or "")))
        if cls is not None and spec.get("priority") is None:
            spec["priority"] = cls.get("value", 0)
            spec.setdefault("preemptionPolicy", cls.get("preemptionPolicy"))
        status.setdefault("phase", "Running" if spec.get("nodeName") else "Pending")
        if spec.get("nodeName"):
            status.setdefault("startTime", stamp)

    def _store(self, key: Key, obj: Object) -> Change:
        self._serial += 1
        meta = {**obj["metadata"], "resourceVersion": str(self._serial)}
        if key[1]:
            meta["namespace"] = key[1]
        obj = {**obj, "metadata": meta}
        self._objects[key] = obj
        return Change(key, obj)

    # Writes of engine and controllers

    def write(self, write: Write) -> list[Change]:
        """Apply a write; it changes nothing if its object is gone or its precondition fails."""
        match write:
            case Bind():
                return self._bind(write)
            case Evict():
                return self._remove(("Pod", write.namespace, write.name), write.uid)
            case Delete():
                return self._remove(_key_in(write.resource, write.namespace, write.name), write.uid)
            case Create():
                return [self.create(write.body, "write")]
            case Patch():
                return self._patch(write)
            case Replace():
                return [self.update(write.body, "write")]

    def _bind(self, write: Bind) -> list[Change]:
        key = ("Pod", write.namespace, write.name)
        old = self.get(key)
        if old is None or old["metadata"]["uid"] != write.uid or old["spec"].get("nodeName"):
            return []
        stamp = self._stamp()
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}
        others = [c for c in old["status"].get("conditions") or [] if c.get("type") != "PodScheduled"]
        status = {"phase": "Running", "startTime": stamp, "conditions": [*others, scheduled]}
        bound = {"spec": {"nodeName": write.node}, "status": {**status, "nominatedNodeName": None}}
        return [self._store(key, merge_patch(old, bound))]

    def _remove(self, key: Key, uid: str) -> list[Change]:
        old = self.get(key)
        if old is None or (uid and old["metadata"]["uid"] != uid):
            return []
        return [Change(key, self._pop(key), gone=True)]

    def _patch(self, write: Patch) -> list[Change]:
        key = _key_in(write.resource, write.namespace, write.name)
        old = self.get(key)
        if old is None or not isinstance(write.body, Mapping):
            return []
        meta = old["metadata"]
        stale = write.resource_version and write.resource_version != meta["resourceVersion"]
        if stale or (write.uid and write.uid != meta["uid"]):
            return []
        obj = merge_patch(old, write.body)
        return [self._store(key, obj)] if obj != old else []


def _as_read(given: Mapping[str, Any]) -> Object:
    """A copy as an API server stores it: a label or annotation without a value is empty."""
    obj: Object = copy.deepcopy(dict(given))
    meta = obj["metadata"] = obj.get("metadata") or {}
    for field in ("labels", "annotations"):
        if isinstance(meta.get(field), dict):
            meta[field] = {name: "" if text is None else text for name, text in meta[field].items()}
    return obj


def merge_patch(target: Any, patch: Mapping[str, Any]) -> Any:
    """RFC 7386: maps merge, null removes, everything else replaces. The target stays as it is.

    The result shares with it what the patch does not change.
    """
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping):
            out[key] = merge_patch(out.get(key), value)
        else:
            out[key] = value
    return out
