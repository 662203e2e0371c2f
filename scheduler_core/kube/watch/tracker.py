"""Record of the versions that a reflector's consumer has, and the events that bring it up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.watch.reading import Metadata, ReadObject
from scheduler_core.model.kinds import Resource

EventType = Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]


class Event(msgspec.Struct, frozen=True):
    """One change. `key` is `namespace/name`, or the name of a cluster-scoped object.

    `obj` is the parsed object for ADDED and MODIFIED and None otherwise. SYNCED comes once, after the first
    complete list, with an empty key.
    """

    type: EventType
    resource: Resource
    key: str = ""
    uid: str = ""
    obj: Any = None


class Tracker:
    """Turns objects of lists and watches into events. Stores uid and resourceVersion per key, but no object.

    An object that cannot be parsed is passed to `on_malformed` once per resourceVersion; its last good
    version stays known. If an object was replaced (another uid), the old one is deleted first.
    """

    def __init__(
        self,
        resource: Resource,
        make: Callable[[ReadObject], Any],
        sink: Callable[[Event], None],
        on_malformed: Callable[[ModelError], None],
    ) -> None:
        self._resource = resource
        self._make = make
        self._sink = sink
        self._on_malformed = on_malformed
        self._known: dict[str, tuple[str, str]] = {}
        self._malformed: dict[str, tuple[str, str]] = {}
        self.events = 0
        self.malformed = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def versions(self) -> dict[str, tuple[str, str]]:
        """uid and resourceVersion per key of the objects that the consumer has; a copy."""
        return dict(self._known)

    @property
    def unreadable(self) -> frozenset[str]:
        """The keys of the objects whose present version cannot be parsed; a copy."""
        return frozenset(list(self._malformed))

    def holds(self, key: str, metadata: Metadata) -> bool:
        """True if the consumer has this version, so that there is no event."""
        version = (metadata.uid, metadata.resource_version)
        return self._known.get(key) == version or self._malformed.get(key) == version

    def knows(self, key: str) -> bool:
        """True if an object of that key exists, malformed or not."""
        return key in self._known or key in self._malformed

    def forget_versions(self) -> None:
        """Versions can no longer be compared: every object counts as changed the next time it is read."""
        self._known = {key: (uid, "") for key, (uid, _) in self._known.items()}
        self._malformed = {key: (uid, "") for key, (uid, _) in self._malformed.items()}

    def upsert(self, key: str, read_object: ReadObject) -> None:
        """The object exists in this version."""
        metadata = read_object.metadata
        if self.holds(key, metadata):
            return
        old = self._known.get(key)
        if old is not None and old[0] != metadata.uid:
            self.remove(key)
            old = None
        obj = self._made(key, read_object)
        if obj is None:
            return
        self._malformed.pop(key, None)
        self._known[key] = (metadata.uid, metadata.resource_version)
        self._emit("ADDED" if old is None else "MODIFIED", key, metadata.uid, obj)

    def remove(self, key: str, uid: str = "") -> None:
        """The object (of that uid, if given) is gone. An object of the same name and another uid stays."""
        old = self._known.get(key)
        if old is not None and uid and old[0] != uid:
            return
        self._malformed.pop(key, None)
        if old is not None:
            del self._known[key]
            self._emit("DELETED", key, old[0], None)

    def keep_only(self, seen: set[str]) -> None:
        """Remove all objects but these keys, after a complete list."""
        for key in [key for key in self._known if key not in seen]:
            self.remove(key)
        for key in [key for key in self._malformed if key not in seen]:
            del self._malformed[key]

    def _made(self, key: str, read_object: ReadObject) -> Any:
        """The object, or None where it is malformed."""
        try:
            return self._make(read_object)
        except ModelError as error:
            # The frames of its traceback, and those of the error that it replaces, hold all that was read of
            # the object, and one of them is this frame: only the garbage collector would end that.
            problem = error.with_traceback(None)
            problem.__context__ = None
        except msgspec.MsgspecError as error:
            problem = ModelError("", str(error))
        self.malformed += 1
        metadata = read_object.metadata
        self._malformed[key] = (metadata.uid, metadata.resource_version)
        if not problem.name:
            problem = problem.within(self._resource.kind, metadata.namespace, metadata.name, metadata.uid)
        self._on_malformed(problem)
        return None

    def _emit(self, type_: EventType, key: str, uid: str, obj: Any) -> None:
        self.events += 1
        self._sink(Event(type_, self._resource, key, uid, obj))
