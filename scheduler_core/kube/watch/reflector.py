"""Reflector, as in client-go: lists and watches one resource, and passes every change to a consumer."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    ApiError,
    Gone,
    NotFound,
    TooManyRequests,
    Unreachable,
    error_from_status,
)
from scheduler_core.kube.http.stream import StreamCut, StreamSilent, StreamWatcher
from scheduler_core.kube.paging import PAGE_SIZE, Page, pages
from scheduler_core.kube.watch.reading import (
    Decoder,
    Metadata,
    ObjectReader,
    ReadObject,
    is_older,
    object_key,
    plain_reader,
)
from scheduler_core.kube.watch.tracker import Event, Tracker
from scheduler_core.model.kinds import Resource


@dataclass(frozen=True)
class ReflectorOptions:
    """Durations of a reflector in seconds, and its page size.

    `silence`: a watch without a byte for this time is opened again from its version. `probe`: interval of TCP
    connects to a server that refuses connections; a successful connect ends the backoff early. `brief`: a
    watch that ends sooner without a change counts as a failure. `steady`: a watch that lasts longer resets
    the backoff.
    """

    backoff: float = 0.8
    backoff_cap: float = 30.0
    watch_min: int = 300
    watch_max: int = 600
    silence: float = 40.0
    probe: float = 2.0
    brief: float = 1.0
    steady: float = 30.0
    page: int = PAGE_SIZE


@dataclass(eq=False)
class WatchRestart(Exception):
    """Ends a watch. `relist` is True where the version of the watch can no longer be used."""

    reason: str
    delay: bool = True
    relist: bool = False
    verify: bool = False
    retry_after: float | None = None
    refused: bool = False


def level_of(error: Exception) -> int:
    """The level at which to log what restarted a watch.

    A server that asks to come back later works: kube-apiserver does so while it prepares a new kind ("storage
    is (re)initializing"). `Reflector.restarts` counts it, should it go on.
    """
    return logging.INFO if isinstance(error, TooManyRequests) else logging.WARNING


class Backoff:
    """Delays that double from `initial` and never exceed `cap` seconds.

    Each delay is a base plus up to as much again at random, so that many clients do not return at the same
    time. `random` returns numbers in [0, 1).
    """

    def __init__(self, initial: float, cap: float, random: Callable[[], float]) -> None:
        self._initial = initial
        self._cap = cap
        self._random = random
        self._base = initial

    def next(self, at_least: float | None = None) -> float:
        """The next delay, at least the `at_least` seconds that the server asked for."""
        base = min(self._base, self._cap / 2)
        self._base = base * 2
        delay = base * (1 + self._random())
        # Jitter on top of the server's value: all other clients got the same value.
        return delay if at_least is None else max(delay, at_least * (1 + self._random() / 10))

    def reset(self) -> None:
        """Start again from `initial` after a success."""
        self._base = self._initial


# A resource counts as absent after this many 404 responses: a server that starts may answer 404 once.
_ABSENT_AFTER = 2
_CHANGES = frozenset(("ADDED", "MODIFIED", "DELETED", "BOOKMARK"))


class Reflector:
    """One thread that lists and watches a resource, and calls `sink` with every change, in order.

    `parse` is an ObjectReader, or builds an object from raw JSON and raises ModelError; that of a kind with
    `Resource.versions` gets the version, too. `on_malformed` gets that error; `on_error` gets every error
    that restarts the watch. All of them run on the reflector's thread. `wait(seconds)` sleeps and returns
    True once the reflector is to stop. These counters may be read from any thread: `lists`, `watches`,
    `restarts` (by reason), `tracker.events`, `tracker.malformed`.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        parse: Callable[[msgspec.Raw], Any] | ObjectReader,
        sink: Callable[[Event], None],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        options: ReflectorOptions | None = None,
        on_malformed: Callable[[ModelError], None] = lambda error: None,
        on_error: Callable[[Exception], None] = lambda error: None,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.synced = threading.Event()
        self.absent = False
        self.last_contact = monotonic()
        self.lists = 0
        self.watches = 0
        self.restarts: Counter[str] = Counter()
        # The resource in the version that the server serves; lists and watches read this one.
        self.served = resource
        # Whether discovery just named that version.
        self._discovered = False
        if resource.versions and not isinstance(parse, ObjectReader):
            parse = self._in_version(parse)
        reader = parse if isinstance(parse, ObjectReader) else plain_reader(parse)
        self.tracker = Tracker(resource, reader.make, sink, on_malformed)
        self._decoder = Decoder(reader.wire)
        self._differs = reader.differs
        self._client = client
        self._sink = sink
        self._scope = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._options = options or ReflectorOptions()
        self._on_error = on_error
        self._monotonic = monotonic
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._uniform = uniform
        self._backoff = Backoff(self._options.backoff, self._options.backoff_cap, uniform)
        self._version = ""
        self._verify = False
        self._was_unreachable = False
        self._refusals = 0
        self._stream: StreamWatcher | None = None
        self._stream_lock = threading.Lock()
        self._thread = threading.Thread(target=self.run, name=f"reflector-{resource.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; wakes a read in progress."""
        self._stopping.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.abort()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def version(self) -> str:
        """The resourceVersion up to which `sink` has every change; empty before the first list."""
        return self._version

    def staleness(self) -> float:
        """Seconds since the last byte of the server; on an idle watch it grows up to
        `ReflectorOptions.silence`.
        """
        return max(0.0, self._monotonic() - self.last_contact)

    def run(self) -> None:
        """The body of the thread: list and watch until stopped."""
        while not self._stopping.is_set():
            try:
                self._list_and_watch()
            except WatchRestart as restart:
                if not self._stopping.is_set():
                    self._recover(restart)
            except Exception as error:
                # A consumer that fails on an event is broken; to go on would lose the event silently.
                self._on_error(error)
                raise

    def _list_and_watch(self) -> None:
        """One list and watch; always ends in WatchRestart."""
        try:
            if self.resource.versions:
                self._resolve_version()
            if self._differs():
                # What is known was made in another way: every object is made anew.
                self.tracker.forget_versions()
                self._version = ""
            if self._verify:
                self._check_rollback()
            if not self._version:
                self._list()
            self._watch()
        except Gone as error:
            self._on_error(error)
            raise WatchRestart("expired", relist=True) from None
        except NotFound as error:
            self._handle_absent(error)
            raise WatchRestart("absent", relist=True) from None
        except Unreachable as error:
            self._on_error(error)
            raise WatchRestart("unreachable", verify=True, refused=error.refused) from None
        except ApiError as error:
            self._on_error(error)
            raise WatchRestart(error.reason, verify=True, retry_after=error.retry_after) from None
        except msgspec.MsgspecError as error:
            self._on_error(error)
            raise WatchRestart("garbage", verify=True) from None
        except MusterError as error:
            self._on_error(error)
            raise WatchRestart("error", verify=True) from None

    def _in_version(self, parse: Callable[..., Any]) -> Callable[[msgspec.Raw], Any]:
        """The parser of a kind with several versions; items of a list do not say in which one they are."""
        return lambda raw: parse(raw, self.served.version)

    def _resolve_version(self) -> None:
        """Follow discovery. Objects keep their uids across versions, but their fields may mean more now."""
        self._discovered = False
        try:
            served = self._client.resolve(self.resource)
        except NotFound:
            # A watch of a version that is gone cannot go on.
            self._version = ""
            raise
        self._discovered = True
        if served != self.served:
            if self.served != self.resource:
                self.tracker.forget_versions()
            self.served, self._version = served, ""

    def _recover(self, restart: WatchRestart) -> None:
        self.restarts[restart.reason] += 1
        if restart.relist and self._was_unreachable:
            # A server that restarted has no watch history. The outage is no reason for a longer delay now.
            self._backoff.reset()
        self._was_unreachable = restart.reason == "unreachable"
        self._verify = restart.verify
        if restart.relist:
            self._version = ""
        if not restart.delay:
            return
        delay = self._backoff.next(restart.retry_after)
        if not restart.refused:
            self._wait(delay)
            return
        until = self._monotonic() + delay
        while (left := until - self._monotonic()) > 0:
            if self._wait(min(left, self._options.probe)) or not self._client.session.refuses_connections():
                return

    def _list(self) -> None:
        """Pass the differences to the server's state to the consumer, page by page, and set the version to
        watch from.
        """
        try:
            version = self._list_pages(self._options.page)
        except Gone as error:
            # The pages expired while the list was read: request all objects in one page.
            self._on_error(error)
            self.restarts["page expired"] += 1
            version = self._list_pages(0)
        self._refusals = 0
        self.absent = False
        self._version = version
        self._emit_synced()

    def _list_pages(self, limit: int) -> str:
        self.lists += 1
        seen: set[str] = set()
        version = ""
        for page in pages(self._page, limit):
            for raw in page.items or ():
                read_object = self._decoder.item(raw)
                key = object_key(read_object.metadata)
                seen.add(key)
                self.tracker.upsert(key, read_object)
            version = page.metadata.resourceVersion
        self.tracker.keep_only(seen)
        return version

    def _page(self, limit: int, token: str = "") -> Page:
        if self._stopping.is_set():
            raise WatchRestart("stopped", delay=False)
        page = self._client.get_page(
            self.served, limit=limit, continue_token=token, retry_budget=0.0, **self._scope
        )
        self.last_contact = self._monotonic()
        return page

    def _emit_synced(self) -> None:
        if not self.synced.is_set():
            self._sink(Event("SYNCED", self.resource))
            self.synced.set()

    def _handle_absent(self, error: NotFound) -> None:
        """The server does not serve the kind: no object of it exists. The kind may be added later.

        A version that discovery named and a list did not find is served by some servers of a cluster and not
        by others, while they are upgraded: known objects stay.
        """
        self.last_contact = self._monotonic()
        self._refusals += 1
        uncertain = self._discovered or self._refusals < _ABSENT_AFTER
        if self._version or (len(self.tracker) and uncertain):
            return
        if not self.absent:
            self._on_error(error)
        self.absent = True
        self.tracker.keep_only(set())
        self._emit_synced()

    def _check_rollback(self) -> None:
        """After an outage: a server whose newest version is older than ours was restored from a backup."""
        if self._version and is_older(self._page(1).metadata.resourceVersion, self._version):
            self._restart_after_rollback()

    def _restart_after_rollback(self) -> NoReturn:
        """Versions repeat after a rollback, so that equal versions no longer mean equal objects."""
        self.tracker.forget_versions()
        raise WatchRestart("history went back", relist=True)

    def _watch(self) -> None:
        """Watch from the current version to the end of the stream; ends in WatchRestart or ApiError."""
        spread = self._options.watch_max - self._options.watch_min
        stream = self._client.watch(
            self.served,
            resource_version=self._version,
            timeout_seconds=self._options.watch_min + int(spread * self._uniform()),
            silence=self._options.silence,
            **self._scope,
        )
        with self._stream_lock:
            self._stream = stream
        self.watches += 1
        began = self.last_contact = self._monotonic()
        version = self._version
        reason, verify = "ended", False
        try:
            if not self._stopping.is_set():
                self._read(stream)
        except StreamSilent:
            reason = "silent"
        except StreamCut:
            reason, verify = "cut", True
        finally:
            with self._stream_lock:
                self._stream = None
            stream.close()
        lasted = self._monotonic() - began
        if lasted >= self._options.steady:
            self._backoff.reset()
        brief = self._version == version and lasted < self._options.brief
        raise WatchRestart(reason, delay=brief, verify=verify)

    def _read(self, stream: StreamWatcher) -> None:
        for line in stream.lines():
            if not line.strip():
                continue
            self.last_contact = self._monotonic()
            type_, read_object = self._decoder.change(line)
            if type_ == "ERROR":
                raise error_from_status(0, read_object.raw(), method="WATCH", path=self.resource.plural)
            self._apply(type_, read_object)
            if self._stopping.is_set():
                return

    def _apply(self, type_: str, read_object: ReadObject) -> None:
        """Apply one watch event; the version advances only after the consumer has the event."""
        metadata = read_object.metadata
        version = metadata.resource_version
        key = object_key(metadata)
        if type_ not in _CHANGES or not version:
            raise MusterError(f"{self.resource.plural}: a watch event of type {type_!r}, version {version!r}")
        if self._is_repeated(type_, key, metadata):
            return
        if is_older(version, self._version):
            self._restart_after_rollback()
        if type_ == "DELETED":
            self.tracker.remove(key, metadata.uid)
        elif type_ != "BOOKMARK":
            self.tracker.upsert(key, read_object)
        if version != self._version:
            self._version = version
            self._backoff.reset()

    def _is_repeated(self, type_: str, key: str, metadata: Metadata) -> bool:
        """Whether the consumer already has this event, whatever its version."""
        if type_ == "DELETED":
            return not self.tracker.knows(key)
        return type_ in ("ADDED", "MODIFIED") and self.tracker.holds(key, metadata)
