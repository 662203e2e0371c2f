"""`kubectl podgroup get`: the groups' own spec and status as a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubectl_plugin.age import age
from kubectl_plugin.get_options import GetOptions
from kubectl_plugin.objects_get import Complaints, no_resources, show_batches
from kubectl_plugin.quota_columns import label_text
from kubectl_plugin.session import CommandSession
from kubectl_plugin.snapshot import Selection, select_raw
from kubectl_plugin.table import Cell, Style, TablePrinter, use_color
from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.meta import Wire, decode

COLUMNS: Final = ("NAME", "PHASE", "MIN", "RUNNING", "SUCCEEDED", "FAILED")
WIDE_COLUMNS: Final = ("ADMITTED", "RESOURCES")
_STYLES: Final[dict[str, Style]] = {"Unschedulable": "yellow", "Failed": "red"}


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int = 0
    total_resources: dict[str, Any] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class _Group(Wire, frozen=True, rename="camel"):
    spec: _Spec = _Spec()
    status: _Status = _Status()


def print_table(
    session: CommandSession, selection: Selection, options: GetOptions, complaints: Complaints
) -> None:
    """Print what was selected, and what changes if that is asked for. Raises the ApiError tree."""
    raw = select_raw(session.client, POD_GROUPS, selection, complaints.about_object)
    if options.sort_by:
        from kubectl_plugin.jsonpath import sort_order

        raw = [raw[i] for i in sort_order([msgspec.json.decode(item) for item in raw], options.sort_by)]
    namespaces, wide = session.all_namespaces, options.output.format == "wide"
    printer = TablePrinter(
        [
            *(["NAMESPACE"] if namespaces else []),
            *COLUMNS,
            *(WIDE_COLUMNS if wide else ()),
            "AGE",
            *(["LABELS"] if options.show_labels else []),
        ],
        show_headers=not options.no_headers,
        color=use_color(options.color, sys.stdout),
    )

    def show(items: Iterable[msgspec.Raw | bytes]) -> None:
        rows = [
            row
            for item in items
            if (row := _row(item, options, complaints, namespaces=namespaces)) is not None
        ]
        for line in printer.lines(rows):
            print(line, flush=options.watching)

    if options.watching:
        if complaints.failed:
            return
        from kubectl_plugin.objects_watch import changed_objects

        batches = changed_objects(session.client, POD_GROUPS, selection, complaints.note)
        show_batches(batches, show, first=options.watch)
    elif raw:
        show(raw)
    elif not complaints.failed and not options.ignore_not_found:
        no_resources(session)


def _row(
    raw: msgspec.Raw | bytes, options: GetOptions, complaints: Complaints, *, namespaces: bool
) -> list[Cell] | None:
    """The cells of one group; None, and a complaint, if it cannot be read."""
    try:
        group = decode(raw, _Group, POD_GROUPS.kind)
    except ModelError as error:
        complaints.about_content(error)
        return None
    meta, spec, status = group.metadata, group.spec, group.status
    cells = [Cell(meta.namespace)] if namespaces else []
    cells += [Cell(meta.name), Cell(status.phase or "-", _STYLES.get(status.phase, ""))]
    cells += [Cell(str(n)) for n in (spec.min_members, status.running, status.succeeded, status.failed)]
    if options.output.format == "wide":
        total = ",".join(f"{name}={value}" for name, value in sorted((spec.total_resources or {}).items()))
        cells += [Cell(str(status.admitted)), Cell(total or "-")]
    cells.append(Cell(age(meta.created, time.time())))
    return [*cells, Cell(label_text(meta.labels or {}))] if options.show_labels else cells
