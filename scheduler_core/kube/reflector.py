"""Keeps a consumer up to date about one resource: list, then watch, for ever, whatever the server does."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.backoff import Backoff
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, Gone, NotFound, Unreachable, error_from_status
from scheduler_core.kube.pace import Pace, Restart
from scheduler_core.kube.paging import Page, pages
from scheduler_core.kube.reading import Decoder, Metadata, Reader, Sight, is_older, object_key, plain_reader
from scheduler_core.kube.stream import Stream, StreamCut, StreamSilent
from scheduler_core.kube.tracker import Event, Tracker
from scheduler_core.model.kinds import Resource

# A kind is believed to have vanished after this many refusals: a server that starts up may refuse once.
_ABSENT_AFTER = 2
_CHANGES = frozenset(("ADDED", "MODIFIED", "DELETED", "BOOKMARK"))


class Reflector:
    """One thread that lists and watches one resource and calls `sink` with every change, in order.

    `parse` reads a raw object and raises ModelError where it cannot, or is a Reader that does so.
    `on_malformed` gets that error and `on_error` whatever made the reflector start over. All of them and
    `sink` run on the reflector's thread.
    `wait(seconds)` sleeps and returns True once the reflector is to stop. Public counters may be read from
    any thread: `lists`, `watches`, `restarts` (by reason), `tracker.events`, `tracker.malformed`.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        parse: Callable[[msgspec.Raw], Any] | Reader,
        sink: Callable[[Event], None],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        pace: Pace | None = None,
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
        reader = parse if isinstance(parse, Reader) else plain_reader(parse)
        self.tracker = Tracker(resource, reader.make, sink, on_malformed)
        self._decoder = Decoder(reader.wire)
        self._client = client
        self._sink = sink
        self._scope = {"label_selector": label_selector, "field_selector": field_selector}
        self._namespace = namespace
        self._pace = pace or Pace()
        self._on_error = on_error
        self._monotonic = monotonic
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._uniform = uniform
        self._backoff = Backoff(self._pace.backoff, self._pace.backoff_cap, uniform)
        self._version = ""
        self._verify = False
        self._away = False
        self._refusals = 0
        self._stream: Stream | None = None
        self._stream_lock = threading.Lock()
        self._thread = threading.Thread(target=self.run, name=f"reflector-{resource.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; a read in progress is woken."""
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
        """The resourceVersion up to which `sink` has had every change; empty before the first list."""
        return self._version

    def staleness(self) -> float:
        """Seconds since the server was last heard of; an idle healthy watch reaches `Pace.silence`."""
        return max(0.0, self._monotonic() - self.last_contact)

    def run(self) -> None:
        """The thread's body: list and watch until stopped."""
        while not self._stopping.is_set():
            try:
                self._list_and_watch()
            except Restart as restart:
                if not self._stopping.is_set():
                    self._recover(restart)
            except Exception as error:
                # A consumer that cannot take an event is broken; going on would lose the event silently.
                self._on_error(error)
                raise

    def _list_and_watch(self) -> None:
        """One round; always ends in Restart."""
        try:
            if self._verify:
                self._check_history()
            if not self._version:
                self._list()
            self._follow()
        except Gone as error:
            self._on_error(error)
            raise Restart("expired", relist=True) from None
        except NotFound as error:
            self._refuse_kind(error)
            raise Restart("absent", relist=True) from None
        except Unreachable as error:
            self._on_error(error)
            raise Restart("unreachable", verify=True, refused=error.refused) from None
        except ApiError as error:
            self._on_error(error)
            raise Restart(error.reason, verify=True, retry_after=error.retry_after) from None
        except msgspec.MsgspecError as error:
            self._on_error(error)
            raise Restart("garbage", verify=True) from None
        except MusterError as error:
            self._on_error(error)
            raise Restart("error", verify=True) from None

    def _recover(self, restart: Restart) -> None:
        self.restarts[restart.reason] += 1
        if restart.relist and self._away:
            # A server that restarted knows no past; that it was away is no reason to be slow now.
            self._backoff.reset()
        self._away = restart.reason == "unreachable"
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
            if self._wait(min(left, self._pace.probe)) or not self._client.session.refuses_connections():
                return

    def _list(self) -> None:
        """Emit what differs from the server's state, page by page; at its end the version to watch from."""
        try:
            version = self._list_pages(self._pace.page)
        except Gone as error:
            # The list changed for longer than the server keeps its past: take everything at once.
            self._on_error(error)
            self.restarts["page expired"] += 1
            version = self._list_pages(0)
        self._refusals = 0
        self.absent = False
        self._version = version
        self._announce()

    def _list_pages(self, limit: int) -> str:
        self.lists += 1
        seen: set[str] = set()
        version = ""
        for page in pages(self._page, limit):
            for raw in page.items or ():
                sight = self._decoder.item(raw)
                key = object_key(sight.metadata)
                seen.add(key)
                self.tracker.upsert(key, sight)
            version = page.metadata.resourceVersion
        self.tracker.keep_only(seen)
        return version

    def _page(self, limit: int, token: str = "") -> Page:
        if self._stopping.is_set():
            raise Restart("stopped", delay=False)
        page = self._client.get_page(
            self.resource,
            self._namespace,
            limit=limit,
            continue_token=token,
            retry_budget=0.0,
            **self._scope,
        )
        self.last_contact = self._monotonic()
        return page

    def _announce(self) -> None:
        if not self.synced.is_set():
            self._sink(Event("SYNCED", self.resource))
            self.synced.set()

    def _refuse_kind(self, error: NotFound) -> None:
        """The server does not know the kind: nothing of it exists, and it may come later."""
        self.last_contact = self._monotonic()
        self._refusals += 1
        if self._version or (len(self.tracker) and self._refusals < _ABSENT_AFTER):
            return
        if not self.absent:
            self._on_error(error)
        self.absent = True
        self.tracker.keep_only(set())
        self._announce()

    def _check_history(self) -> None:
        """After an outage: a server whose newest version is older than ours was restored from a backup."""
        if self._version and is_older(self._page(1).metadata.resourceVersion, self._version):
            self._distrust_history()
        self._verify = False

    def _distrust_history(self) -> NoReturn:
        """Versions count from an earlier past now, so that equal ones no longer mean equal objects."""
        self.tracker.forget_versions()
        raise Restart("history went back", relist=True)

    def _follow(self) -> None:
        """Watch from the current version to the end of the stream; ends in Restart or ApiError."""
        spread = self._pace.watch_max - self._pace.watch_min
        stream = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self._version,
            timeout_seconds=self._pace.watch_min + int(spread * self._uniform()),
            silence=self._pace.silence,
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
        if lasted >= self._pace.steady:
            self._backoff.reset()
        brief = self._version == version and lasted < self._pace.brief
        raise Restart(reason, delay=brief, verify=verify)

    def _read(self, stream: Stream) -> None:
        for line in stream.lines():
            if not line.strip():
                continue
            self.last_contact = self._monotonic()
            type_, sight = self._decoder.change(line)
            if type_ == "ERROR":
                raise error_from_status(0, sight.raw(), method="WATCH", path=self.resource.plural)
            self._apply(type_, sight)
            if self._stopping.is_set():
                return

    def _apply(self, type_: str, sight: Sight) -> None:
        """One line of the watch; the version moves on only after the consumer has the event."""
        metadata = sight.metadata
        version = metadata.resource_version
        key = object_key(metadata)
        if type_ not in _CHANGES or not version:
            raise MusterError(f"{self.resource.plural}: a watch event of type {type_!r}, version {version!r}")
        if self._is_repeated(type_, key, metadata):
            return
        if is_older(version, self._version):
            self._distrust_history()
        if type_ == "DELETED":
            self.tracker.remove(key, metadata.uid)
        elif type_ != "BOOKMARK":
            self.tracker.upsert(key, sight)
        if version != self._version:
            self._version = version
            self._backoff.reset()

    def _is_repeated(self, type_: str, key: str, metadata: Metadata) -> bool:
        """An event that the consumer has had already, whatever its version."""
        if type_ == "DELETED":
            return not self.tracker.knows(key)
        return type_ in ("ADDED", "MODIFIED") and self.tracker.holds(key, metadata)
