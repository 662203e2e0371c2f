"""Object store in memory in the role of etcd and the watch cache: objects, event logs and subscribers.

One resourceVersion counts all writes. All calls run on the server's event loop, so the store has no locks. A
stored object is never changed in place: a new version replaces it, and holders of the old one may keep it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from sandbox import errors
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, encode_json

Objects = list[Obj]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Callback = Callable[[EventType, Obj, Obj | None], None]

LOG_LENGTH = 50_000
"""Number of events kept per kind; older events are compacted."""


class Version:
    """One stored version of an object; its JSON is encoded once for each view (`ApiKind.view`)."""

    __slots__ = ("_bytes", "name", "namespace", "obj", "rv")

    def __init__(self, obj: Obj, rv: int) -> None:
        meta = obj["metadata"]
        self.obj = obj
        self.rv = rv
        self.namespace: str = meta.get("namespace", "")
        self.name: str = meta["name"]
        self._bytes: dict[str, bytes] = {}

    def encoded(self, view: str, convert: Callable[[Obj], Obj]) -> bytes:
        """JSON of the object in a view; `convert` runs at most once per version."""
        found = self._bytes.get(view)
        if found is None:
            found = self._bytes[view] = encode_json(convert(self.obj))
        return found


class LogEntry:
    """One change: event type, version after it (the last version for DELETED), and version before it."""

    __slots__ = ("event", "new", "old", "rv")

    def __init__(self, rv: int, event: EventType, new: Version, old: Version | None) -> None:
        self.rv = rv
        self.event = event
        self.new = new
        self.old = old


EntryCallback = Callable[[LogEntry], None]
Recorder = Callable[[str, LogEntry], None]
Versions = list[Version]
LogEntries = list[LogEntry]


class KindStorage:
    """Objects, event log and subscribers of one storage name."""

    def __init__(self, oldest: int) -> None:
        self.objects: dict[str, dict[str, Version]] = {}
        self.log: list[LogEntry] = []
        self.oldest = oldest
        self.entry_callbacks: dict[int, EntryCallback] = {}
        self.callbacks: dict[int, Callback] = {}

    def compact(self, keep: int) -> None:
        if len(self.log) > keep:
            cut = len(self.log) - keep
            self.oldest = self.log[cut - 1].rv
            del self.log[:cut]


class ObjectStore:
    """All objects of an API server. `recorder(storage, entry)` is called synchronously for each write."""

    def __init__(self, log_length: int = LOG_LENGTH) -> None:
        self._storages: dict[str, KindStorage] = {}
        self._all_callbacks: dict[int, Callback] = {}
        self._log_length = log_length
        self._next_token = 0
        self._oldest = 0
        self.recorder: Recorder | None = None
        self.revision = 1

    def storage(self, kind: ApiKind) -> KindStorage:
        """The objects of a kind, and who watches them."""
        return self._named(kind.storage)

    def _named(self, storage: str) -> KindStorage:
        found = self._storages.get(storage)
        if found is None:
            found = self._storages[storage] = KindStorage(self._oldest)
        return found

    def get(self, kind: ApiKind, namespace: str, name: str) -> Obj | None:
        """The object, or None. `namespace` is "" for cluster-scoped kinds."""
        version = self.version(kind, namespace, name)
        return version.obj if version else None

    def version(self, kind: ApiKind, namespace: str, name: str) -> Version | None:
        """Like `get`, but returns the stored version with its encoded JSON."""
        by_name = self.storage(kind).objects.get(namespace)
        return by_name.get(name) if by_name else None

    def current(self, kind: ApiKind, namespace: str, name: str) -> Version:
        """Like `version`; raises StatusError (NotFound) for a missing object."""
        found = self.version(kind, namespace, name)
        if found is None:
            raise errors.not_found(kind, name)
        return found

    def list(self, kind: ApiKind, namespace: str | None = None) -> Objects:
        """Objects in name order; None selects all namespaces."""
        return [version.obj for version in self.versions(kind, namespace)]

    def versions(self, kind: ApiKind, namespace: str | None = None) -> Versions:
        """Like `list`, but returns stored versions."""
        objects = self.storage(kind).objects
        spaces = sorted(objects) if not namespace else [namespace]
        return [
            by_name[name]
            for by_name in (objects.get(space, {}) for space in spaces)
            for name in sorted(by_name)
        ]

    def iterate(self, kind: ApiKind, namespace: str | None = None) -> Iterator[Obj]:
        """Objects in arbitrary order without copying the list; do not write while iterating."""
        objects = self.storage(kind).objects
        spaces = [objects.get(namespace, {})] if namespace else objects.values()
        return (version.obj for by_name in spaces for version in by_name.values())

    def count(self, kind: ApiKind, namespace: str | None = None) -> int:
        """Number of objects."""
        objects = self.storage(kind).objects
        if namespace:
            return len(objects.get(namespace, ()))
        return sum(map(len, objects.values()))

    def create(self, kind: ApiKind, obj: Obj) -> Obj:
        """Store a new object under the name in its metadata and set its resourceVersion.

        Raises StatusError (AlreadyExists) if the name is in use. The store keeps `obj` itself.
        """
        meta = obj["metadata"]
        by_name = self.storage(kind).objects.setdefault(meta.get("namespace", ""), {})
        if meta["name"] in by_name:
            raise errors.already_exists(kind, meta["name"])
        version = self._stamped(obj)
        by_name[version.name] = version
        self._publish(kind, LogEntry(version.rv, "ADDED", version, None))
        return version.obj

    def update(self, kind: ApiKind, obj: Obj) -> Obj:
        """Replace an object. Raises StatusError (NotFound).

        The store keeps `obj` itself, with `metadata` replaced by a copy that has the new resourceVersion.
        """
        meta = obj["metadata"]
        old = self.current(kind, meta.get("namespace", ""), meta["name"])
        version = self._stamped(obj)
        self.storage(kind).objects[version.namespace][version.name] = version
        self._publish(kind, LogEntry(version.rv, "MODIFIED", version, old))
        return version.obj

    def remove(self, kind: ApiKind, namespace: str, name: str) -> Obj:
        """Remove an object; returns its last version with the resourceVersion of the removal."""
        old = self.current(kind, namespace, name)
        last = self._stamped(dict(old.obj))
        by_name = self.storage(kind).objects[namespace]
        del by_name[name]
        if not by_name:
            del self.storage(kind).objects[namespace]
        self._publish(kind, LogEntry(last.rv, "DELETED", last, old))
        return last.obj

    def _stamped(self, obj: Obj) -> Version:
        self.revision += 1
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self.revision)}
        return Version(obj, self.revision)

    def _publish(self, kind: ApiKind, entry: LogEntry) -> None:
        if self.recorder:
            self.recorder(kind.storage, entry)
        self._notify(self.storage(kind), entry)

    def _notify(self, storage: KindStorage, entry: LogEntry) -> None:
        storage.log.append(entry)
        if len(storage.log) > self._log_length * 5 // 4:
            storage.compact(self._log_length)
        for follow in list(storage.entry_callbacks.values()):
            follow(entry)
        old = entry.old.obj if entry.old else None
        for callback in [*storage.callbacks.values(), *self._all_callbacks.values()]:
            callback(entry.event, entry.new.obj, old)

    def since(self, kind: ApiKind, rv: int) -> LogEntries:
        """Changes after `rv`. Raises StatusError (Expired) if some of them have been compacted."""
        storage = self.storage(kind)
        if rv < storage.oldest:
            raise errors.gone(rv, storage.oldest)
        return storage.log[bisect_right(storage.log, rv, key=lambda entry: entry.rv) :]

    def subscribe(self, kind: ApiKind | None, callback: Callback) -> Callable[[], None]:
        """Call `callback(type, obj, old)` synchronously on each change of the kind (None: of all kinds).

        Returns a function that ends the subscription. A callback must not raise or write synchronously.
        """
        return self._attach(self.storage(kind).callbacks if kind else self._all_callbacks, callback)

    def follow(self, kind: ApiKind, callback: EntryCallback) -> Callable[[], None]:
        """Like `subscribe`, but passes log entries, whose versions share encoded JSON between watches."""
        return self._attach(self.storage(kind).entry_callbacks, callback)

    def _attach(self, table: dict[int, Any], callback: Any) -> Callable[[], None]:
        self._next_token += 1
        token = self._next_token
        table[token] = callback
        return lambda: table.pop(token, None)

    def everything(self) -> Iterator[tuple[str, Version]]:
        """Every object with the name of its storage."""
        for name, storage in self._storages.items():
            for by_name in storage.objects.values():
                for version in by_name.values():
                    yield name, version

    def restore(self, objects: Iterable[tuple[str, Version]], revision: int) -> None:
        """Fill an empty store with objects of an earlier one; subscribers see each as ADDED, in this order.

        The next write gets the version after `revision`. Watches from before fail with 410.
        """
        self.revision = revision
        for name, version in objects:
            storage = self._named(name)
            storage.objects.setdefault(version.namespace, {})[version.name] = version
            self._notify(storage, LogEntry(version.rv, "ADDED", version, None))
        self.compact()

    def compact(self) -> None:
        """Drop all past events; a watch from an old resourceVersion then fails with 410."""
        self._oldest = self.revision
        for storage in self._storages.values():
            storage.compact(0)
            storage.oldest = self.revision
