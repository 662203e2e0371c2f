"""The Events of one object, the newest last."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.reading import ListClient, ListScope, list_or_none, parsed
from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.meta import ApiObject, ObjectMeta, Raw, decode
from scheduler_core.model.timestamps import epoch


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int = 0
    last_observed_time: datetime | None = None


class _Reference(msgspec.Struct, frozen=True):
    uid: str = ""


class _Source(msgspec.Struct, frozen=True):
    component: str = ""


class _EventWire(ApiObject, frozen=True, rename="camel"):
    """An Event of events.k8s.io; old writers fill the fields that begin with `deprecated`."""

    type: str = ""
    reason: str = ""
    note: str = ""
    reporting_controller: str = ""
    regarding: _Reference = _Reference()
    event_time: datetime | None = None
    series: _Series | None = None
    deprecated_first_timestamp: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    deprecated_count: int | None = None
    deprecated_source: _Source | None = None


class ObjectEvent(msgspec.Struct, frozen=True):
    """What happened to an object, `count` times from `first` to `last` (seconds since the epoch; 0: unknown).

    `uid` is that of the object.
    """

    type: str
    reason: str
    first: float
    last: float
    count: int
    source: str
    note: str
    uid: str


def parse_event(raw: Raw) -> ObjectEvent:
    """Decode an Event. Raises ModelError."""
    wire = decode(raw, _EventWire, EVENTS.kind)
    series = wire.series or _Series()
    first = epoch(wire.event_time or wire.deprecated_first_timestamp) or wire.metadata.created
    last = epoch(series.last_observed_time or wire.deprecated_last_timestamp) or first
    source = wire.deprecated_source.component if wire.deprecated_source is not None else ""
    count = max(series.count, wire.deprecated_count or 1, 1)
    return ObjectEvent(
        wire.type,
        wire.reason,
        first,
        last,
        count,
        wire.reporting_controller or source,
        wire.note,
        wire.regarding.uid,
    )


def read_events(
    client: ListClient, kind: str, meta: ObjectMeta, diagnostics: Diagnostics
) -> list[ObjectEvent] | None:
    """The Events of an object, the newest last; None if the user may not list them. Raises the ApiError tree.

    Events of an earlier object of the same name are left out.
    """
    fields = f"regarding.kind={kind},regarding.name={meta.name}"
    listed = list_or_none(client, EVENTS, ListScope(meta.namespace, fields=fields))
    if listed is None:
        return None
    return _of(parsed(listed, parse_event, diagnostics.unreadable), meta.uid)


def _of(events: Iterable[ObjectEvent], uid: str) -> list[ObjectEvent]:
    return sorted((event for event in events if event.uid in ("", uid)), key=lambda event: event.last)
