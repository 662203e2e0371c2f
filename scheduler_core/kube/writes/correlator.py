"""Event correlation, as in client-go: decides which occurrences create Events and which update a series.
Pure.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create, Patch

# Limits of events.k8s.io/v1: note 1 KiB, reason, action and reportingInstance 128 characters.
NOTE_BYTES = 1024
WORD_CHARACTERS = 128
NAME_CHARACTERS = 253
_FIGURE: Final = re.compile(r"[0-9]+")


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


class SeriesKey(NamedTuple):
    """What the occurrences of one series have in common."""

    regarding: ObjectReference
    related: ObjectReference | None
    type: str
    reason: str
    action: str
    reporting_controller: str
    reporting_instance: str


class Occurrence(msgspec.Struct, frozen=True):
    """An occurrence to record as an Event. `now` is in seconds since the epoch; `type` is Normal or Warning.

    `reporting_controller` is the profile's name, `reporting_instance` identifies this process.
    `annotations` are those of the Event.
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
    annotations: Mapping[str, str] = {}

    @property
    def key(self) -> SeriesKey:
        """The key of the series; occurrences of one series may have different notes."""
        return SeriesKey(
            self.regarding,
            self.related,
            self.type,
            self.reason,
            self.action,
            self.reporting_controller,
            self.reporting_instance,
        )


@lru_cache(2048)
def shape(note: str) -> str:
    """A note without its figures."""
    return _FIGURE.sub("#", note)


class _Series(msgspec.Struct):
    """The last Event of a series, created for `occurrence`. Without a note there is no such Event."""

    occurrence: Occurrence
    name: str
    note: str
    count: int
    posted_at: float
    last_seen: float
    posted_count: int
    # The time from which a new Event uses up nothing of the burst.
    rested_at: float


class _Postponed(msgspec.Struct):
    """The newest note about an object, of which no Event tells yet, and how often it occurred."""

    occurrence: Occurrence
    note: str
    count: int


class DueWrite(NamedTuple):
    """A write that was postponed, and the last occurrence of its series."""

    write: Create | Patch
    occurrence: Occurrence


class EventCorrelator:
    """Stores the recent series, at most `capacity`.

    The first occurrence creates an Event. Another one with the same note within `window` seconds only counts,
    and the count is written at most every `interval` seconds. The note of an Event is immutable, so another
    note creates a new Event: at once if more than its figures differ, up to `burst` Events in a row, else
    `interval` seconds after the last Event. Until then the note is postponed. `due` returns it, unless
    something newer was told about the object.
    """

    def __init__(
        self, *, window: float = 360.0, interval: float = 30.0, burst: int = 3, capacity: int = 10_000
    ) -> None:
        self._window = window
        self._interval = interval
        self._burst = burst
        self._capacity = capacity
        # Ordered by the time of the last occurrence, the oldest first.
        self._series: OrderedDict[SeriesKey, _Series] = OrderedDict()
        # Series whose count has not been written.
        self._uncounted: dict[SeriesKey, _Series] = {}
        self._postponed: dict[ObjectReference, _Postponed] = {}
        self._sequence = 0

    def observe(self, occurrence: Occurrence) -> list[Create | Patch]:
        """The writes for this occurrence; usually one Create or none."""
        key, now = occurrence.key, occurrence.now
        note = truncate(occurrence.note)
        before = self._postponed.get(occurrence.regarding)
        if before is not None and (before.occurrence.key, before.note) == (key, note):
            before.count, before.occurrence = before.count + 1, occurrence
            return self._post(before) if self._earliest(self._series[key], note) <= now else []
        self.withdraw(occurrence.regarding)
        series = self._series.get(key)
        if series is not None and now - series.last_seen <= self._window:
            if series.note == note:
                return self._count(key, series, now)
            if now < self._earliest(series, note):
                self._postponed[occurrence.regarding] = _Postponed(occurrence, note, 1)
                return []
        return self._post(_Postponed(occurrence, note, 1))

    def tells(self, occurrence: Occurrence) -> bool:
        """Whether the last Event of the series has this note, and not an earlier one."""
        series = self._series.get(occurrence.key)
        return series is not None and series.note == truncate(occurrence.note)

    def due(
        self, now: float, allowed: Callable[[], bool] = lambda: True, *, all_notes: bool = False
    ) -> list[DueWrite]:
        """Postponed notes and counts that are due to be written; forgets series that ended.

        `allowed` is asked before each; what it refuses stays due. `all_notes`: a note is due at any time.
        """
        writes: list[DueWrite] = []
        for postponed in list(self._postponed.values()):
            occurrence = postponed.occurrence
            if all_notes or self._earliest(self._series[occurrence.key], postponed.note) <= now:
                if not allowed():
                    return writes
                writes += [DueWrite(write, occurrence) for write in self._post(postponed)]
        for key, series in list(self._uncounted.items()):
            if now - series.last_seen > self._window or now - series.posted_at >= self._interval:
                if not allowed():
                    return writes
                series.posted_at = now
                writes.append(DueWrite(self._patch(key, series), series.occurrence))
        self._forget_ended(now)
        return writes

    def is_postponed(self, regarding: ObjectReference) -> bool:
        """Whether there is a note about this object that no Event tells yet."""
        return regarding in self._postponed

    def withdraw(self, regarding: ObjectReference) -> None:
        """The postponed note about this object no longer holds: it counts in the last Event of its series."""
        postponed = self._postponed.pop(regarding, None)
        if postponed is not None:
            key = postponed.occurrence.key
            series = self._series[key]
            series.count += postponed.count
            if series.note:
                self._uncounted[key] = series

    def postpone(self, occurrence: Occurrence) -> None:
        """No Event was created for this occurrence: it is due again, unless something newer was told."""
        key, note, now = occurrence.key, truncate(occurrence.note), occurrence.now
        series = self._series.get(key)
        if series is None:
            series = self._remember(key, _Series(occurrence, "", "", 0, now, now, 0, now + self._interval))
        elif series.note == note:
            self._uncounted.pop(key, None)
            series.note, series.posted_count = "", series.count
        elif series.note and series.occurrence.now > now:
            return
        newest = self._postponed.get(occurrence.regarding)
        if newest is None or newest.occurrence.now <= now:
            self.withdraw(occurrence.regarding)
            self._postponed[occurrence.regarding] = _Postponed(occurrence, note, 1)

    def forget(self, key: SeriesKey) -> None:
        """The Event of this series does not exist: the next occurrence creates a new one."""
        self._uncounted.pop(key, None)
        if self._series.pop(key, None) is not None:
            self._drop_postponed(key)

    def _earliest(self, series: _Series, note: str) -> float:
        """The time from which a new Event may tell of another note."""
        if series.note and shape(series.note) == shape(note):
            return series.occurrence.now + self._interval
        return series.rested_at - (self._burst - 1) * self._interval

    def _count(self, key: SeriesKey, series: _Series, now: float) -> list[Create | Patch]:
        series.count += 1
        series.last_seen = now
        self._series.move_to_end(key)
        if now - series.posted_at >= self._interval:
            return [self._patch(key, series)]
        self._uncounted[key] = series
        return []

    def _post(self, postponed: _Postponed) -> list[Create | Patch]:
        """The last count of the Event before, and a new Event with this note."""
        occurrence, key = postponed.occurrence, postponed.occurrence.key
        self._postponed.pop(occurrence.regarding, None)
        before = self._series.pop(key, None)
        counts = before is not None and before.note and before.count > before.posted_count
        last: list[Create | Patch] = [self._patch(key, before)] if before is not None and counts else []
        return [*last, self._create(key, postponed, before.rested_at if before is not None else 0.0)]

    def _remember(self, key: SeriesKey, series: _Series) -> _Series:
        self._series[key] = series
        while len(self._series) > self._capacity:
            oldest, _ = self._series.popitem(last=False)
            self._uncounted.pop(oldest, None)
            self._drop_postponed(oldest)
        return series

    def _forget_ended(self, now: float) -> None:
        while self._series:
            key, series = next(iter(self._series.items()))
            postponed = self._postponed.get(key.regarding)
            if now - series.last_seen <= self._window or (postponed and postponed.occurrence.key == key):
                return
            del self._series[key]

    def _drop_postponed(self, key: SeriesKey) -> None:
        postponed = self._postponed.get(key.regarding)
        if postponed is not None and postponed.occurrence.key == key:
            del self._postponed[key.regarding]

    def _create(self, key: SeriesKey, postponed: _Postponed, rested_at: float) -> Create:
        occurrence, note, now = postponed.occurrence, postponed.note, postponed.occurrence.now
        self._sequence += 1
        unique = f".{int(now * 1e6):x}{self._sequence & 0xFFFF:04x}"
        name = event_name(occurrence.regarding.name, unique)
        namespace = _namespace(occurrence)
        rested_at = max(rested_at, now) + self._interval
        series = _Series(occurrence, name, note, postponed.count, now, now, 1, rested_at)
        if self._remember(key, series).count > 1:
            self._uncounted[key] = series
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                **({"annotations": dict(occurrence.annotations)} if occurrence.annotations else {}),
            },
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

    def _patch(self, key: SeriesKey, series: _Series) -> Patch:
        self._uncounted.pop(key, None)
        series.posted_count = series.count
        series.posted_at = max(series.posted_at, series.last_seen)
        body = {"series": {"count": series.count, "lastObservedTime": format_micro_time(series.last_seen)}}
        return Patch(EVENTS, _namespace(series.occurrence), series.name, body)


def _namespace(occurrence: Occurrence) -> str:
    """The namespace of Events about this object."""
    return occurrence.regarding.namespace or "default"


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
