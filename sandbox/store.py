"""Objects in memory with one growing resourceVersion, an event log per kind, and subscribers.

Single-threaded: everything runs on the server's event loop, so there are no locks. A stored object is never
changed in place; a new version replaces it, and whoever holds the old one may keep it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from sandbox import errors
from sandbox.kinds import ApiKind

Obj = dict[str, Any]
Objects = list[Obj]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Callback = Callable[[EventType, Obj, Obj | None], None]

LOG_LENGTH = 50_000
"""Events kept per kind before the oldest are compacted away."""

_encode = msgspec.json.Encoder().encode


class Version:
    """One stored version of an object, with its bytes encoded once per view of it (`ApiKind.view`)."""

    __slots__ = ("_bytes", "name", "namespace", "obj", "rv")

    def __init__(self, obj: Obj, rv: int) -> None:
        meta = obj["metadata"]
        self.obj = obj
        self.rv = rv
        self.namespace: str = meta.get("namespace", "")
        self.name: str = meta["name"]
        self._bytes: dict[str, bytes] = {}

    def encoded(self, view: str, convert: Callable[[Obj], Obj]) -> bytes:
        """JSON of the object as shown in a view; `convert` runs at most once per version."""
        found = self._bytes.get(view)
        if found is None:
            found = self._bytes[view] = _encode(convert(self.obj))
        return found


class LogEntry:
    """One change: what happened, the version after it (the last one for DELETED), and the one before."""

    __slots__ = ("event", "new", "old", "rv")

    def __init__(self, rv: int, event: EventType, new: Version, old: Version | None) -> None:
        self.rv = rv
        self.event = event
        self.new = new
        self.old = old


EntryCallback = Callable[[LogEntry], None]
Versions = list[Version]
LogEntries = list[LogEntry]


class _Shelf:
    """The objects, log and subscribers of one storage name."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Version]] = {}
        self.log: list[LogEntry] = []
        self.oldest = 0
        self.entry_callbacks: dict[int, EntryCallback] = {}
        self.callbacks: dict[int, Callback] = {}

    def compact(self, keep: int) -> None:
        if len(self.log) > keep:
            cut = len(self.log) - keep
            self.oldest = self.log[cut - 1].rv
            del self.log[:cut]


class Store:
    """All objects of a server."""

    def __init__(self, log_length: int = LOG_LENGTH) -> None:
        self._shelves: dict[str, _Shelf] = {}
        self._all_callbacks: dict[int, Callback] = {}
        self._log_length = log_length
        self._next_token = 0
        self.revision = 1

    def _shelf(self, kind: ApiKind) -> _Shelf:
        found = self._shelves.get(kind.storage)
        if found is None:
            found = self._shelves[kind.storage] = _Shelf()
        return found

    def get(self, kind: ApiKind, namespace: str, name: str) -> Obj | None:
        """The object, or None. `namespace` is "" for cluster-scoped kinds."""
        version = self.version(kind, namespace, name)
        return version.obj if version else None

    def version(self, kind: ApiKind, namespace: str, name: str) -> Version | None:
        """As `get`, with the encoded bytes at hand."""
        by_name = self._shelf(kind).objects.get(namespace)
        return by_name.get(name) if by_name else None

    def list(self, kind: ApiKind, namespace: str | None = None) -> Objects:
        """Objects in name order; None means every namespace."""
        return [version.obj for version in self.versions(kind, namespace)]

    def versions(self, kind: ApiKind, namespace: str | None = None) -> Versions:
        """As `list`, as versions."""
        objects = self._shelf(kind).objects
        spaces = sorted(objects) if not namespace else [namespace]
        return [
            by_name[name]
            for by_name in (objects.get(space, {}) for space in spaces)
            for name in sorted(by_name)
        ]

    def iterate(self, kind: ApiKind, namespace: str | None = None) -> Iterator[Obj]:
        """Objects in no particular order, without a copy of the list: do not write while you iterate."""
        objects = self._shelf(kind).objects
        spaces = [objects.get(namespace, {})] if namespace else objects.values()
        return (version.obj for by_name in spaces for version in by_name.values())

    def count(self, kind: ApiKind, namespace: str | None = None) -> int:
        """Number of objects."""
        objects = self._shelf(kind).objects
        if namespace:
            return len(objects.get(namespace, ()))
        return sum(map(len, objects.values()))

    def create(self, kind: ApiKind, obj: Obj) -> Obj:
        """Store a new object under the name in its metadata and stamp its resourceVersion.

        Raises StatusError (AlreadyExists) if the name is taken. The store keeps `obj` itself.
        """
        meta = obj["metadata"]
        by_name = self._shelf(kind).objects.setdefault(meta.get("namespace", ""), {})
        if meta["name"] in by_name:
            raise errors.already_exists(kind, meta["name"])
        version = self._stamped(obj)
        by_name[version.name] = version
        self._publish(kind, LogEntry(version.rv, "ADDED", version, None))
        return version.obj

    def update(self, kind: ApiKind, obj: Obj, expected_rv: int | None = None) -> Obj:
        """Replace an object. Raises StatusError NotFound, or Conflict if its version is not `expected_rv`.

        The store keeps `obj` itself, with `metadata` replaced by a copy that has the new resourceVersion.
        """
        meta = obj["metadata"]
        old = self._current(kind, meta.get("namespace", ""), meta["name"], expected_rv)
        version = self._stamped(obj)
        self._shelf(kind).objects[version.namespace][version.name] = version
        self._publish(kind, LogEntry(version.rv, "MODIFIED", version, old))
        return version.obj

    def remove(self, kind: ApiKind, namespace: str, name: str, expected_rv: int | None = None) -> Obj:
        """Take an object out; returns its last version, stamped with the revision of the removal."""
        old = self._current(kind, namespace, name, expected_rv)
        last = self._stamped(dict(old.obj))
        by_name = self._shelf(kind).objects[namespace]
        del by_name[name]
        if not by_name:
            del self._shelf(kind).objects[namespace]
        self._publish(kind, LogEntry(last.rv, "DELETED", last, old))
        return last.obj

    def _current(self, kind: ApiKind, namespace: str, name: str, expected_rv: int | None) -> Version:
        old = self.version(kind, namespace, name)
        if old is None:
            raise errors.not_found(kind, name)
        if expected_rv is not None and old.rv != expected_rv:
            raise errors.conflict(kind, name)
        return old

    def _stamped(self, obj: Obj) -> Version:
        self.revision += 1
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self.revision)}
        return Version(obj, self.revision)

    def _publish(self, kind: ApiKind, entry: LogEntry) -> None:
        shelf = self._shelf(kind)
        shelf.log.append(entry)
        if len(shelf.log) > self._log_length * 5 // 4:
            shelf.compact(self._log_length)
        for follow in list(shelf.entry_callbacks.values()):
            follow(entry)
        old = entry.old.obj if entry.old else None
        for callback in [*shelf.callbacks.values(), *self._all_callbacks.values()]:
            callback(entry.event, entry.new.obj, old)

    def since(self, kind: ApiKind, rv: int) -> LogEntries:
        """Changes after `rv`. Raises StatusError (Expired) if some of them were compacted away."""
        shelf = self._shelf(kind)
        if rv < shelf.oldest:
            raise errors.gone(rv, shelf.oldest)
        return shelf.log[bisect_right(shelf.log, rv, key=lambda entry: entry.rv) :]

    def subscribe(self, kind: ApiKind | None, callback: Callback) -> Callable[[], None]:
        """Call `callback(type, obj, old)` at once on each change of the kind (None: of every kind).

        Returns what ends the subscription. A callback must not raise and must not write synchronously.
        """
        return self._attach(self._shelf(kind).callbacks if kind else self._all_callbacks, callback)

    def follow(self, kind: ApiKind, callback: EntryCallback) -> Callable[[], None]:
        """As `subscribe`, with log entries (versions with shared bytes): for watches."""
        return self._attach(self._shelf(kind).entry_callbacks, callback)

    def _attach(self, table: dict[int, Any], callback: Any) -> Callable[[], None]:
        self._next_token += 1
        token = self._next_token
        table[token] = callback
        return lambda: table.pop(token, None)

    def compact(self) -> None:
        """Forget all past events: a watch from an old resourceVersion gets 410."""
        for shelf in self._shelves.values():
            shelf.compact(0)
            shelf.oldest = self.revision
