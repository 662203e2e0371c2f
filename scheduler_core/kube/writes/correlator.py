"""Event correlation, as in client-go: decides which occurrences create Events and which update a series.
Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create, Patch

# Limits of events.k8s.io/v1: note 1 KiB, reason, action and reportingInstance 128 characters.
NOTE_BYTES = 1024
WORD_CHARACTERS = 128
NAME_CHARACTERS = 253


class ObjectReference(msgspec.Struct, frozen=True):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def as_json(self) -> dict[str, str]:
        fields = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name}
        if self.namespace:
            fields["namespace"] = self.namespace
        if self.uid:
            fields["uid"] = self.uid
        return fields


class Occurrence(msgspec.Struct, frozen=True):
    """An occurrence to record as an Event. `now` is in seconds since the epoch; `type` is Normal or Warning.

    `reporting_controller` is the profile's name, `reporting_instance` identifies this process.
    """

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    reporting_controller: str
    reporting_instance: str
    now: float
    related: ObjectReference | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the series; occurrences of one series may have different notes."""
        return (
            self.regarding,
            self.related,
            self.type,
            self.reason,
            self.action,
            self.reporting_controller,
            self.reporting_instance,
        )


class _Series(msgspec.Struct):
    namespace: str
    name: str
    note: str
    count: int
    posted_at: float
    last_seen: float
    posted_count: int
    created_at: float


class EventCorrelator:
    """Stores the recent series, at most `capacity`.

    The first occurrence creates an Event. Another one with the same note within `window` seconds only counts,
    and the count is written at most every `interval` seconds. The note of an Event is immutable, so another
    note creates a new Event, at the earliest `interval` seconds after the last one.
    """

    def __init__(self, *, window: float = 360.0, interval: float = 30.0, capacity: int = 10_000) -> None:
        self._window = window
        self._interval = interval
        self._capacity = capacity
        # Ordered by the time of the last occurrence, the oldest first.
        self._series: OrderedDict[tuple[Any, ...], _Series] = OrderedDict()
        # Series whose count has not been written.
        self._uncounted: dict[tuple[Any, ...], _Series] = {}
        self._sequence = 0

    def observe(self, occurrence: Occurrence) -> list[Create | Patch]:
        """The writes for this occurrence; usually one Create or none."""
        key, now = occurrence.key, occurrence.now
        note = truncate(occurrence.note)
        series = self._series.get(key)
        if series is None:
            return [self._create(key, occurrence, note)]
        new = now - series.created_at < self._interval
        if now - series.last_seen <= self._window and (series.note == note or new):
            series.count += 1
            series.last_seen = now
            self._series.move_to_end(key)
            if now - series.posted_at >= self._interval:
                return [self._patch(key, series)]
            self._uncounted[key] = series
            return []
        last = [self._patch(key, series)] if series.count > series.posted_count else []
        del self._series[key]
        return [*last, self._create(key, occurrence, note)]

    def tells(self, occurrence: Occurrence) -> bool:
        """Whether the last Event of the series has this note, and not an earlier one of the same interval."""
        series = self._series.get(occurrence.key)
        return series is not None and series.note == truncate(occurrence.note)

    def due(self, now: float) -> list[Patch]:
        """Counts that are due to be written; forgets series that ended."""
        patches = []
        for key, series in list(self._uncounted.items()):
            if now - series.last_seen > self._window or now - series.posted_at >= self._interval:
                series.posted_at = now
                patches.append(self._patch(key, series))
        while self._series and now - next(iter(self._series.values())).last_seen > self._window:
            self._series.popitem(last=False)
        return patches

    def forget(self, occurrence: Occurrence) -> None:
        """The Event of this series does not exist: the next occurrence creates a new one."""
        self._series.pop(occurrence.key, None)
        self._uncounted.pop(occurrence.key, None)

    def _create(self, key: tuple[Any, ...], occurrence: Occurrence, note: str) -> Create:
        self._sequence += 1
        unique = f".{int(occurrence.now * 1e6):x}{self._sequence & 0xFFFF:04x}"
        name = event_name(occurrence.regarding.name, unique)
        namespace = occurrence.regarding.namespace or "default"
        now = occurrence.now
        self._series[key] = _Series(namespace, name, note, 1, now, now, 1, now)
        while len(self._series) > self._capacity:
            oldest, _ = self._series.popitem(last=False)
            self._uncounted.pop(oldest, None)
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": format_micro_time(now),
            "type": occurrence.type,
            "reason": occurrence.reason[:WORD_CHARACTERS],
            "action": occurrence.action[:WORD_CHARACTERS],
            "note": note,
            "regarding": occurrence.regarding.as_json(),
            "reportingController": occurrence.reporting_controller,
            "reportingInstance": occurrence.reporting_instance[:WORD_CHARACTERS],
        }
        if occurrence.related is not None:
            body["related"] = occurrence.related.as_json()
        return Create(EVENTS, namespace, body)

    def _patch(self, key: tuple[Any, ...], series: _Series) -> Patch:
        self._uncounted.pop(key, None)
        series.posted_count = series.count
        series.posted_at = max(series.posted_at, series.last_seen)
        body = {"series": {"count": series.count, "lastObservedTime": format_micro_time(series.last_seen)}}
        return Patch(EVENTS, series.namespace, series.name, body)


def event_name(name: str, unique: str) -> str:
    """The name of an Event about the object `name`; `unique` begins with a dot.

    Each part between dots ends with a letter or digit, wherever a long name is cut.
    """
    return name[: NAME_CHARACTERS - len(unique)].rstrip("-.") + unique


def truncate(note: str, limit: int = NOTE_BYTES) -> str:
    """The note within `limit` bytes of UTF-8, cut between characters and marked with an ellipsis."""
    if note.isascii() and len(note) <= limit:
        return note
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."
