"""Watches for `get --watch`: reflectors on threads of their own, their events in one queue."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from kubectl_plugin.reading import Scope
from kubectl_plugin.snapshot import Selection
from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.reflector import Reflector
from scheduler_core.kube.tracker import Event
from scheduler_core.model.kinds import Resource

# Events that come this close together (seconds) are one change: a job's pods start in a burst.
GATHER_SECONDS: Final = 0.1


class Change(msgspec.Struct, frozen=True):
    """An event, and the feed that it came from."""

    feed: str
    event: Event

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name of the object."""
        namespace, _, name = self.event.key.rpartition("/")
        return namespace, name


class Following:
    """Feeds of changes. `note` gets one line when a watch is interrupted, or an object cannot be read."""

    def __init__(self, client: Client, note: Callable[[str], None]) -> None:
        self._client = client
        self._note = note
        self._said = ""
        self._queue: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self._reflectors: list[Reflector] = []
        self._unsynced: set[str] = set()

    def follow(
        self, feed: str, resource: Resource, parse: Callable[[msgspec.Raw], Any], scope: Scope
    ) -> None:
        """Start to list and watch; every object arrives as ADDED before the feed's SYNCED."""
        reflector = Reflector(
            self._client,
            resource,
            parse,
            lambda event: self._queue.put(Change(feed, event)),
            namespace=scope.namespace,
            label_selector=scope.labels,
            field_selector=scope.fields,
            on_malformed=self._malformed,
            on_error=self._interrupted,
        )
        self._unsynced.add(feed)
        self._reflectors.append(reflector)
        reflector.start()

    def batches(self) -> Iterator[list[Change]]:
        """What changed, a burst at a time, for ever; the first batch holds all that exists at the start."""
        while True:
            batch = [self._queue.get()]
            self._note_synced(batch[0])
            until = time.monotonic() + GATHER_SECONDS
            while self._unsynced or (left := until - time.monotonic()) > 0:
                try:
                    batch.append(self._queue.get(timeout=None if self._unsynced else left))
                except queue.Empty:
                    break
                self._note_synced(batch[-1])
            yield batch

    def stop(self) -> None:
        """End the watches."""
        for reflector in self._reflectors:
            reflector.stop()

    def _note_synced(self, change: Change) -> None:
        if change.event.type == "SYNCED":
            self._unsynced.discard(change.feed)
            self._said = ""

    def _malformed(self, error: ModelError) -> None:
        self._note(f"error: {error}")

    def _interrupted(self, error: Exception) -> None:
        if str(error) != self._said:
            self._said = str(error)
            self._note(f"note: the watch is interrupted and goes on when it can: {error}")


def scope_of(selection: Selection) -> Scope:
    """The scope of a watch: a name is a field selector there."""
    if not selection.names:
        return selection.scope
    return msgspec.structs.replace(selection.scope, fields=f"metadata.name={selection.names[0]}")
