"""The description of one object, in the layout of `kubectl describe`, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubectl_plugin.inspection.events import ObjectEvent
from kubectl_plugin.render.table import ABSENT, UNKNOWN, Cell, TablePrinter
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.kinds import Resource
from scheduler_core.model.meta import ObjectMeta
from scheduler_core.model.printable import visible
from scheduler_core.model.timestamps import format_time
from scheduler_core.printing.age import human_duration

NONE: Final = "<none>"
# kubectl leaves out what `kubectl apply` keeps for itself, and cuts long annotations.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_LONGEST: Final = 140


class Section(msgspec.Struct, frozen=True):
    """A table of a description. `rows` is None where the user may not read them, as `missing` says."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] | None
    missing: str = ""


class Description(msgspec.Struct, frozen=True):
    """An object: its metadata, facts (title and text), and tables."""

    resource: Resource
    meta: ObjectMeta
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]

    def document(self) -> dict[str, Any]:
        """The description for JSON and YAML; null for a table that the user may not read."""
        meta = self.meta
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "namespace": meta.namespace,
            "name": meta.name,
            "labels": meta.labels or {},
            "annotations": meta.annotations or {},
            "created": format_time(meta.created) if meta.created else None,
            "facts": {_key(title): text for title, text in self.facts},
            **{_key(section.title): _records(section) for section in self.sections},
        }


def _key(title: str) -> str:
    """`Nodes kept` as `nodesKept`."""
    first, *rest = title.split()
    return first.lower() + "".join(word.capitalize() for word in rest)


def _records(section: Section) -> list[dict[str, str]] | None:
    if section.rows is None:
        return None
    keys = [_key(header) for header in section.headers]
    return [dict(zip(keys, row, strict=True)) for row in section.rows]


def lines(description: Description, now: float) -> Iterator[str]:
    """The text of a description, line by line. `now` is in seconds since the epoch."""
    meta = description.meta
    created = f"{format_time(meta.created)} ({_ago(meta.created, now)} ago)" if meta.created else UNKNOWN
    notes = {key: text for key, text in (meta.annotations or {}).items() if key != _LAST_APPLIED}
    facts = [
        ("Name", [meta.name]),
        ("Namespace", [meta.namespace]),
        ("Labels", _pairs(meta.labels or {}, "=")),
        ("Annotations", _pairs(notes, ": ")),
        ("Created", [created]),
        *((title, [text]) for title, text in description.facts),
    ]
    width = max(len(title) for title, _ in facts) + 3
    for title, texts in facts:
        first, *rest = texts
        yield f"{title + ':':<{width}}{visible(first)}"
        yield from (" " * width + visible(text) for text in rest)
    for section in description.sections:
        yield from _table(section)


def _pairs(texts: Mapping[str, str], between: str) -> list[str]:
    pairs = (f"{key}{between}{texts[key]}" for key in sorted(texts))
    return [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..." for text in pairs] or [NONE]


def _table(section: Section) -> Iterator[str]:
    if section.rows is None:
        yield f"{section.title}:  not known: {section.missing}"
        return
    if not section.rows:
        yield f"{section.title}:  {NONE}"
        return
    yield f"{section.title}:"
    rule = tuple("-" * len(header) for header in section.headers)
    cells = [[Cell(text) for text in row] for row in (rule, *section.rows)]
    yield from (f"  {line}" for line in TablePrinter(section.headers).lines(cells))


def conditions_section(conditions: Iterable[ObjectCondition]) -> Section:
    """The conditions of an object."""
    rows = tuple(
        (
            item.type,
            item.status,
            item.reason or ABSENT,
            format_time(item.last_transition_time.timestamp()) if item.last_transition_time else ABSENT,
            item.message or ABSENT,
        )
        for item in conditions
    )
    return Section("Conditions", ("Type", "Status", "Reason", "Since", "Message"), rows)


def events_section(events: Sequence[ObjectEvent] | None, now: float) -> Section:
    """The Events of an object with their age: `2m (x5 over 10m)`."""
    headers = ("Type", "Reason", "Age", "From", "Message")
    if events is None:
        return Section("Events", headers, None, "you may not list events")
    rows = tuple(
        (item.type or ABSENT, item.reason or ABSENT, _event_age(item, now), item.source or ABSENT, item.note)
        for item in events
    )
    return Section("Events", headers, rows)


def _event_age(event: ObjectEvent, now: float) -> str:
    last = _ago(event.last, now)
    return f"{last} (x{event.count} over {_ago(event.first, now)})" if event.count > 1 else last


def _ago(moment: float, now: float) -> str:
    return human_duration(now - moment) if moment else UNKNOWN
