"""Watches of pods, one for each namespace with reservations: other pods cost no memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Protocol

from scheduler_core.kube.watch.reading import is_older
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.pods.use import PodUse
from webhook.reservations.ledger_cache import DeletedUids


class Watch(Protocol):
    """A reflector of the pods of one namespace."""

    @property
    def version(self) -> str:
        """The resourceVersion up to which every change was passed to the sink."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class NamespacePods:
    """The pods of one namespace as the watch has shown them. Written by a reflector's thread."""

    def __init__(self) -> None:
        self.deleted = DeletedUids()
        self._lock = threading.Lock()
        self._pods: dict[str, PodUse] = {}
        self._uids: dict[str, str] = {}
        self._synced = False
        self.watch: Watch | None = None

    def sink(self, event: Event) -> None:
        """Take one change."""
        with self._lock:
            if event.type == "SYNCED":
                self._synced = True
                return
            old = self._uids.pop(event.key, "")
            if event.obj is None:
                self._pods.pop(old, None)
                self.deleted.add(old or event.uid)
                return
            if old and old != event.obj.uid:
                self._pods.pop(old, None)
            self._uids[event.key] = event.obj.uid
            self._pods[event.obj.uid] = event.obj

    def pods(self, version: str) -> dict[str, PodUse] | None:
        """The pods by uid, or None if the watch has not caught up with `version`."""
        # The version is read first, because it advances only after the sink got the change.
        if self.watch is None or is_older(self.watch.version, version):
            return None
        with self._lock:
            return dict(self._pods) if self._synced else None


class PodWatches:
    """Starts and stops the watches. `make(namespace, sink)` makes a watch that is not started."""

    def __init__(self, make: Callable[[str, Callable[[Event], None]], Watch]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._seen: dict[str, NamespacePods] = {}

    def follow(self, namespace: str) -> NamespacePods:
        """The pods of a namespace, which is watched from now on."""
        with self._lock:
            seen = self._seen.get(namespace)
            if seen is None:
                seen = self._seen[namespace] = NamespacePods()
                seen.watch = self._make(namespace, seen.sink)
                seen.watch.start()
            return seen

    def keep(self, namespaces: Collection[str]) -> None:
        """Stop the watches of all other namespaces."""
        with self._lock:
            leaving = [self._seen.pop(name) for name in list(self._seen) if name not in namespaces]
        for seen in leaving:
            if seen.watch is not None:
                seen.watch.stop()
