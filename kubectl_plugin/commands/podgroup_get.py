"""`kubectl podgroup get`: flags, help and the table of groups of every dialect with their own status."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.get_flags import GetOptions, get_flags
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import (
    ABSENT,
    Cell,
    Style,
    TablePrinter,
    label_cells,
    label_headers,
    label_text,
    use_color,
)
from scheduler_core.errors import ModelError
from scheduler_core.printing.age import age

if TYPE_CHECKING:
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.object_source import FoundObject
    from kubectl_plugin.cluster.pod_groups import PrintedGroup
    from kubectl_plugin.cluster.quota_snapshot import ObjectSelection
    from kubectl_plugin.cluster.session import CommandSession

COLUMNS: Final = ("NAME", "DIALECT", "PHASE", "MIN", "RUNNING", "SUCCEEDED", "FAILED")
WIDE_COLUMNS: Final = ("ADMITTED", "RESOURCES")
_STYLES: Final[dict[str, Style]] = {"Unschedulable": "yellow", "Failed": "red", "SchedulerError": "red"}


@click.command(name="get")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@get_flags
@global_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Show groups of every dialect with their requirements and the status of their objects.

    DIALECT: incubator (incubator.scheduling.k8s.io), x-k8s (scheduling.x-k8s.io), native
    (scheduling.k8s.io), configmap (a group ConfigMap). `status` counts the pods of all of them.

    \b
    Examples:
      kubectl podgroup get -A
      kubectl podgroup get training -n team-a -o yaml
      kubectl podgroup get -w
    """
    from kubectl_plugin.cluster.object_source import Groups
    from kubectl_plugin.commands.get import run_get

    run_get(ctx, Groups(), names, GetOptions(**flags), print_table)


def print_table(
    session: CommandSession, selection: ObjectSelection, options: GetOptions, diagnostics: Diagnostics
) -> None:
    """Print the selected groups, and their changes with --watch. Raises the ApiError tree."""
    from kubectl_plugin.cluster.object_source import Groups
    from kubectl_plugin.cluster.pod_groups import parse_printed
    from kubectl_plugin.commands.get import no_resources, show_batches

    source = Groups()
    found = source.select(session.client, selection, diagnostics)
    if options.sort_by:
        found = _sorted(found, options.sort_by)
    namespaces, wide = session.all_namespaces, options.output.format == "wide"
    printer = TablePrinter(
        [
            *(["NAMESPACE"] if namespaces else []),
            *COLUMNS,
            *(WIDE_COLUMNS if wide else ()),
            "AGE",
            *label_headers(options.label_columns),
            *(["LABELS"] if options.show_labels else []),
        ],
        show_headers=not options.no_headers,
        color=use_color(options.color, sys.stdout),
    )

    def show(items: Iterable[FoundObject]) -> None:
        rows = []
        for item in items:
            try:
                rows.append(_row(parse_printed(item.raw, item.resource), options, namespaces=namespaces))
            except ModelError as error:
                diagnostics.unreadable(error)
        for line in printer.lines(rows):
            print(line, flush=options.watching)

    if options.watching:
        if diagnostics.failed:
            return
        batches = source.changes(session.client, selection, diagnostics.note)
        show_batches(batches, show, first=options.watch)
    elif found:
        show(found)
    elif not diagnostics.failed and not options.ignore_not_found:
        no_resources(session)


def _sorted(found: Sequence[FoundObject], path: str) -> list[FoundObject]:
    import msgspec

    from kubectl_plugin.render.jsonpath_template import sort_order

    return [found[i] for i in sort_order([msgspec.json.decode(item.raw) for item in found], path)]


def _row(group: PrintedGroup, options: GetOptions, *, namespaces: bool) -> list[Cell]:
    from scheduler_core.model.groups.gang import DIALECT_NAMES

    meta = group.meta
    cells = [Cell(meta.namespace)] if namespaces else []
    cells += [Cell(group.name), Cell(DIALECT_NAMES[group.dialect])]
    cells.append(Cell(group.phase or ABSENT, _STYLES.get(group.phase, "")))
    cells += map(_number, (group.minimum, group.running, group.succeeded, group.failed))
    if options.output.format == "wide":
        total = ",".join(f"{name}={value}" for name, value in sorted(group.total.items()))
        cells += [_number(group.admitted), Cell(total or ABSENT)]
    cells.append(Cell(age(meta.created, time.time())))
    cells += label_cells(meta.labels or {}, options.label_columns)
    return [*cells, Cell(label_text(meta.labels or {}))] if options.show_labels else cells


def _number(value: int | None) -> Cell:
    return Cell(ABSENT if value is None else str(value))
