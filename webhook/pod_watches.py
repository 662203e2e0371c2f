"""Pods of the namespaces with reservations, each watched by itself: nobody else's pods cost memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from scheduler_core.kube.reading import is_older
from scheduler_core.kube.tracker import Event
from scheduler_core.model.pod_use import PodUse
from webhook.holdings import Gone


class Watch(Protocol):
    """A reflector of the pods of one namespace."""

    @property
    def version(self) -> str:
        """The resourceVersion up to which every change was told."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class PodsSeen:
    """The pods of one namespace as far as they were told. Written by a reflector's thread."""

    def __init__(self) -> None:
        self.gone = Gone()
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
                self.gone.add(old or event.uid)
                return
            if old and old != event.obj.uid:
                self._pods.pop(old, None)
            self._uids[event.key] = event.obj.uid
            self._pods[event.obj.uid] = event.obj

    def pods(self, version: str) -> dict[str, PodUse] | None:
        """The pods by uid, or None if not all is known that was there at `version`."""
        # The version is read first: it moves on only after the change was told.
        if self.watch is None or is_older(self.watch.version, version):
            return None
        with self._lock:
            return dict(self._pods) if self._synced else None


class PodWatches:
    """Starts and stops the watches. `make(namespace, sink)` gives a watch that was not started."""

    def __init__(self, make: Callable[[str, Callable[[Event], None]], Watch]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._seen: dict[str, PodsSeen] = {}

    def follow(self, namespace: str) -> PodsSeen:
        """The pods of a namespace, watched from now on."""
        with self._lock:
            seen = self._seen.get(namespace)
            if seen is None:
                seen = self._seen[namespace] = PodsSeen()
                seen.watch = self._make(namespace, seen.sink)
                seen.watch.start()
            return seen

    def keep(self, namespaces: Collection[str]) -> None:
        """Stop the watches of all other namespaces."""
        with self._lock:
            leaving: Mapping[str, PodsSeen] = {
                name: seen for name, seen in self._seen.items() if name not in namespaces
            }
            for name in leaving:
                del self._seen[name]
        for seen in leaving.values():
            if seen.watch is not None:
                seen.watch.stop()
