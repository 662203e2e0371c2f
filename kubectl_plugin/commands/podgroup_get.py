"""`kubectl podgroup get`: flags, help and the table of PodGroups with their own status."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.get_flags import GetOptions, get_flags
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import ABSENT, Cell, Style, TablePrinter, label_text, use_color
from scheduler_core.errors import ModelError
from scheduler_core.printing.age import age

if TYPE_CHECKING:
    import msgspec

    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.pod_groups import PrintedPodGroup
    from kubectl_plugin.cluster.quota_snapshot import ObjectSelection
    from kubectl_plugin.cluster.session import CommandSession

COLUMNS: Final = ("NAME", "PHASE", "MIN", "RUNNING", "SUCCEEDED", "FAILED")
WIDE_COLUMNS: Final = ("ADMITTED", "RESOURCES")
_STYLES: Final[dict[str, Style]] = {"Unschedulable": "yellow", "Failed": "red"}


@click.command(name="get")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@get_flags
@global_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Show PodGroups (incubator.scheduling.k8s.io) with their requirements and status.

    \b
    Examples:
      kubectl podgroup get -A
      kubectl podgroup get training -n team-a -o yaml
      kubectl podgroup get -w
    """
    from kubectl_plugin.commands.get import run_get
    from scheduler_core.model.kinds import POD_GROUPS

    run_get(ctx, POD_GROUPS, names, GetOptions(**flags), print_table)


def print_table(
    session: CommandSession, selection: ObjectSelection, options: GetOptions, diagnostics: Diagnostics
) -> None:
    """Print the selected groups, and their changes with --watch. Raises the ApiError tree."""
    from kubectl_plugin.cluster.pod_groups import parse_printed
    from kubectl_plugin.cluster.quota_snapshot import select_raw
    from kubectl_plugin.commands.get import no_resources, show_batches
    from scheduler_core.model.kinds import POD_GROUPS

    raw = select_raw(session.client, POD_GROUPS, selection, diagnostics.object_error)
    if options.sort_by:
        raw = _sorted(raw, options.sort_by)
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
        rows = []
        for item in items:
            try:
                rows.append(_row(parse_printed(item), options, namespaces=namespaces))
            except ModelError as error:
                diagnostics.unreadable(error)
        for line in printer.lines(rows):
            print(line, flush=options.watching)

    if options.watching:
        if diagnostics.failed:
            return
        from kubectl_plugin.cluster.object_watch import changed_objects

        batches = changed_objects(session.client, POD_GROUPS, selection, diagnostics.note)
        show_batches(batches, show, first=options.watch)
    elif raw:
        show(raw)
    elif not diagnostics.failed and not options.ignore_not_found:
        no_resources(session)


def _sorted(raw: Sequence[msgspec.Raw | bytes], path: str) -> list[msgspec.Raw | bytes]:
    import msgspec

    from kubectl_plugin.render.jsonpath_template import sort_order

    return [raw[i] for i in sort_order([msgspec.json.decode(item) for item in raw], path)]


def _row(group: PrintedPodGroup, options: GetOptions, *, namespaces: bool) -> list[Cell]:
    meta, spec, status = group.metadata, group.spec, group.status
    cells = [Cell(meta.namespace)] if namespaces else []
    cells += [Cell(meta.name), Cell(status.phase or ABSENT, _STYLES.get(status.phase, ""))]
    cells += [Cell(str(n)) for n in (spec.min_members, status.running, status.succeeded, status.failed)]
    if options.output.format == "wide":
        total = ",".join(f"{name}={value}" for name, value in sorted((spec.total_resources or {}).items()))
        cells += [Cell(str(status.admitted)), Cell(total or ABSENT)]
    cells.append(Cell(age(meta.created, time.time())))
    return [*cells, Cell(label_text(meta.labels or {}))] if options.show_labels else cells
