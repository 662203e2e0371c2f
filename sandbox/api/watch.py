"""Watch streams: past events, then live events, filtered by selectors, in the requested representation."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from aiohttp import web

from sandbox import errors
from sandbox.api.lists import Lister, ListParams, parse_list_params
from sandbox.api.request_info import ResourcePath
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, encode_json
from sandbox.store import selectors
from sandbox.store.conversion import kind_view
from sandbox.store.object_store import EventType, LogEntry, ObjectStore, Version

PENDING_LIMIT = 20_000
"""Number of unsent events at which a slow watcher's stream is closed."""
_BATCH = 500
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
Encoder = Callable[[Version], bytes]


@dataclass(frozen=True, slots=True)
class WatchParams:
    """Query parameters of a watch request."""

    selection: ListParams
    bookmarks: bool
    initial_events: bool | None
    timeout: float


def parse_watch_params(query: Mapping[str, str]) -> WatchParams:
    """Query parameters of a watch request. Raises BadRequest."""
    selection = parse_list_params(query)
    timeout = query.get("timeoutSeconds", "")
    if timeout and not timeout.isdigit():
        raise errors.bad_request(f'Invalid value: "{timeout}": timeoutSeconds must be a number')
    asked = query.get("sendInitialEvents", "")
    initial = {"true": True, "false": False}.get(asked)
    if initial is not None and selection.match != "NotOlderThan":
        raise errors.bad_request(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
            "NotOlderThan"
        )
    # Like kube-apiserver: a random timeout of 30 to 60 minutes spreads the reconnects of clients without one.
    seconds = float(timeout) if timeout and int(timeout) else random.uniform(1800, 3600)
    bookmarks = query.get("allowWatchBookmarks", "") in ("true", "1")
    return WatchParams(selection, bookmarks, initial, seconds)


class WatchStream:
    """The response stream of one watch request."""

    def __init__(
        self,
        store: ObjectStore,
        lister: Lister,
        target: ResourcePath,
        params: WatchParams,
        encoder: Encoder,
        idle: float,
    ) -> None:
        self._store = store
        self._lister = lister
        self._target = target
        self._kind: ApiKind = target.kind
        self._params = params
        self._encoder = encoder
        self._idle = idle
        self._matches = selectors.predicate(self._kind, params.selection.labels, params.selection.fields)
        self._pending: deque[LogEntry] = deque()
        self._wake = asyncio.Event()
        self._overrun = False
        self._stopping = False
        self._transport: asyncio.WriteTransport | None = None

    def _push(self, entry: LogEntry) -> None:
        if len(self._pending) >= PENDING_LIMIT:
            self._cut()
        else:
            self._pending.append(entry)
        self._wake.set()

    def _cut(self) -> None:
        """Close the stream of a client that is too slow, even during a write."""
        self._overrun = True
        if self._transport is not None:
            self._transport.abort()

    def stop(self) -> None:
        """End the stream once its pending events are written."""
        self._stopping = True
        self._wake.set()

    async def run(self, response: web.StreamResponse, transport: asyncio.WriteTransport | None) -> None:
        """Write events until timeout, disconnect, overrun or server stop."""
        self._transport = transport
        unfollow = self._store.follow(self._kind, self._push)
        try:
            first = self._first_events()
            deadline = asyncio.get_running_loop().time() + self._params.timeout
            for chunk in first:
                await response.write(chunk)
            await self._follow(response, deadline)
        except errors.StatusError as error:
            await response.write(_frame("ERROR", encode_json(error.to_status())))
        except ConnectionError:
            return
        finally:
            unfollow()

    def _first_events(self) -> Iterator[bytes]:
        """The initial events of the stream, computed before the first await so that no event is missed."""
        params = self._params
        version = params.selection.resource_version
        if params.initial_events or (params.initial_events is None and not version):
            found = self._lister.matching(self._target, params.selection)
            chunks = [_frame("ADDED", self._encoder(item)) for item in found]
            if params.initial_events and params.bookmarks:
                chunks.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
            return _batched(chunks)
        past = self._store.since(self._kind, version) if version else []
        return _batched([line for line in map(self._line, past) if line])

    async def _follow(self, response: web.StreamResponse, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        while not self._overrun:
            lines: list[bytes] = []
            while self._pending and len(lines) < _BATCH:
                line = self._line(self._pending.popleft())
                if line:
                    lines.append(line)
            if lines:
                await response.write(b"".join(lines))
                continue
            if self._pending:
                await asyncio.sleep(0)
                continue
            if self._stopping:
                return
            self._wake.clear()
            left = deadline - loop.time()
            if left <= 0:
                return
            try:
                await asyncio.wait_for(self._wake.wait(), min(left, self._idle))
            except TimeoutError:
                if self._params.bookmarks:
                    await response.write(self._bookmark({}))

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        meta: Obj = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        obj = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}
        return _frame("BOOKMARK", encode_json(obj))

    def _line(self, entry: LogEntry) -> bytes | None:
        """The event for this watcher; None if neither the old nor the new object matches its selectors."""
        if self._target.namespace and entry.new.namespace != self._target.namespace:
            return None
        event: EventType = entry.event
        if self._matches is None:
            return _frame(event, self._encoder(entry.new))
        is_in = event != "DELETED" and self._matches(kind_view(self._kind, entry.new.obj))
        was_in = entry.old is not None and self._matches(kind_view(self._kind, entry.old.obj))
        if is_in:
            return _frame("MODIFIED" if was_in else "ADDED", self._encoder(entry.new))
        if was_in and entry.old is not None:
            return _frame("DELETED", self._encoder(_as_of(entry.old, entry.rv)))
        return None


def _as_of(old: Version, rv: int) -> Version:
    """The last matching version with the resourceVersion at which it stopped matching."""
    return Version({**old.obj, "metadata": {**old.obj["metadata"], "resourceVersion": str(rv)}}, rv)


def _frame(event: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event.encode(), body)


def _batched(lines: list[bytes]) -> Iterator[bytes]:
    return (b"".join(lines[start : start + _BATCH]) for start in range(0, len(lines), _BATCH))
