"""Reflectors for `--watch`, one thread each, whose events arrive in one queue."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Final

import msgspec

from kubectl_plugin.cluster.quota_snapshot import ObjectSelection
from kubectl_plugin.cluster.reading import ListScope
from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.kube.watch.reading import ObjectReader
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import Resource

# Seconds for which events are collected into one batch: the pods of a job start in a burst.
GATHER_SECONDS: Final = 0.1


class FeedEvent(msgspec.Struct, frozen=True):
    """An event, and the name of the reflector that sent it."""

    feed: str
    event: Event

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the object."""
        namespace, _, name = self.event.key.rpartition("/")
        return namespace, name


class Reflectors:
    """Reflectors with one queue. `note` receives a line per interrupted watch or invalid object."""

    def __init__(self, client: Client, note: Callable[[str], None]) -> None:
        self._client = client
        self._note = note
        self._said = ""
        self._queue: queue.SimpleQueue[FeedEvent] = queue.SimpleQueue()
        self._reflectors: dict[str, Reflector] = {}
        self._unsynced: set[str] = set()
        # The last error of each feed, and when it happened (monotonic seconds).
        self._errors: dict[str, tuple[float, Exception]] = {}
        # Why objects could not be read, by feed and key.
        self._problems: dict[tuple[str, str], ModelError] = {}

    def start(
        self,
        feed: str,
        resource: Resource,
        parse: Callable[[msgspec.Raw], Any] | ObjectReader,
        scope: ListScope,
    ) -> None:
        """Start a reflector. Each existing object arrives as ADDED, followed by SYNCED."""
        reflector = Reflector(
            self._client,
            resource,
            parse,
            lambda event: self._queue.put(FeedEvent(feed, event)),
            namespace=scope.namespace,
            label_selector=scope.labels,
            field_selector=scope.fields,
            on_malformed=lambda error: self._malformed(feed, error),
            on_error=lambda error: self._interrupted(feed, error),
        )
        self._unsynced.add(feed)
        self._reflectors[feed] = reflector
        reflector.start()

    def batches(self) -> Iterator[list[FeedEvent]]:
        """Events in batches, without end. The first batch contains all existing objects of all reflectors."""
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
        """Stop all reflectors."""
        for reflector in self._reflectors.values():
            reflector.stop()

    def trouble(self) -> Exception | None:
        """The error since which a feed had no contact with the server; None while all have. Thread-safe."""
        for feed, (when, error) in list(self._errors.items()):
            # A server that does not have the kind says so: that is contact.
            if self._reflectors[feed].last_contact <= when and not isinstance(error, NotFound):
                return error
        return None

    def absent(self, feed: str) -> bool:
        """Whether the server does not serve the kind of a feed now; it is asked again all the time."""
        return feed in self._reflectors and self._reflectors[feed].absent

    def unreadable(self) -> list[ModelError]:
        """Why objects cannot be read as they are now. Thread-safe."""
        there = {feed: reflector.tracker.unreadable for feed, reflector in list(self._reflectors.items())}
        problems = sorted(self._problems.items(), key=itemgetter(0))
        return [error for (feed, key), error in problems if key in there[feed]]

    @property
    def synced(self) -> bool:
        """Whether all reflectors have sent all objects that were there at first."""
        return not self._unsynced

    def _note_synced(self, change: FeedEvent) -> None:
        if change.event.type == "SYNCED":
            self._unsynced.discard(change.feed)
            self._said = ""

    def _malformed(self, feed: str, error: ModelError) -> None:
        self._problems[feed, f"{error.namespace}/{error.name}".lstrip("/")] = error
        self._note(f"error: {error}")

    def _interrupted(self, feed: str, error: Exception) -> None:
        self._errors[feed] = time.monotonic(), error
        if str(error) != self._said:
            self._said = str(error)
            self._note(f"note: the watch is interrupted and will be resumed: {error}")


def scope_of(selection: ObjectSelection) -> ListScope:
    """The scope of a watch; a name becomes a field selector."""
    if not selection.names:
        return selection.scope
    return msgspec.structs.replace(selection.scope, fields=f"metadata.name={selection.names[0]}")
