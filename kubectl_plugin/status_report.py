"""`kubectl podgroup status`: every group with its members counted, and what it waits for."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import click

from kubectl_plugin.age import age
from kubectl_plugin.entry import AlreadyReported, check_segment
from kubectl_plugin.get_options import TABLES, ColorChoice
from kubectl_plugin.group_standing import Standing, read_quotas, read_reservations, standing_of
from kubectl_plugin.group_view import GroupView, read_groups
from kubectl_plugin.objects_get import Complaints, no_resources
from kubectl_plugin.session import CommandSession
from kubectl_plugin.structured import to_json, to_yaml
from kubectl_plugin.table import Cell, Style, TablePrinter, use_color, visible
from scheduler_core.model.gang import Gang

COLUMNS: Final = ("NAME", "PHASE", "MIN", "BOUND", "RUNNING", "PENDING", "SUCCEEDED", "FAILED")
WIDE_COLUMNS: Final = ("RESERVED", "KEPT")
LAST_COLUMNS: Final = ("TOPOLOGY", "REASON", "AGE")
STYLES: Final[dict[str, Style]] = {
    "Unschedulable": "yellow",
    "Pending": "yellow",
    "Scheduling": "yellow",
    "Failed": "red",
}
_REASON_WIDTH: Final = 100


@dataclass(frozen=True)
class StatusOptions:
    """The flags of the command."""

    output: str
    no_headers: bool
    watch: bool
    color: ColorChoice


def run_status(ctx: click.Context, name: str | None, options: StatusOptions) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, CommandFailed, click.UsageError."""
    check_segment("group", name or "")
    output, wide = options.output, options.output == "wide"
    if options.watch and output not in TABLES:
        raise click.UsageError(f"-o {output} cannot be used with --watch.")
    session, complaints = CommandSession.of(ctx), Complaints()
    if name and session.all_namespaces:
        raise click.UsageError("a resource cannot be retrieved by name across all namespaces.")
    printer = _printer(session, options)
    table = StatusTable(printer, namespaces=session.all_namespaces, wide=wide)
    if options.watch:
        from kubectl_plugin.status_watch import follow_groups

        follow_groups(session, name or "", table.show, complaints)
        return
    view = read_groups(session.client, session.scope, complaints, whole=False)
    table.known = known = read_reservations(session.client, session.scope, view, complaints)
    groups = [view.group(session.namespace, name)] if name else view.groups()
    if name and output == "table":
        from kubectl_plugin.status_detail import detail

        read_quotas(session.client, session.namespace, view, complaints)
        print("\n".join(detail(view, standing_of(view, groups[0]), known=known)))
    else:
        _print_all(session, view, groups, output, table, single=name is not None)
    if complaints.failed:
        raise AlreadyReported


def _print_all(
    session: CommandSession,
    view: GroupView,
    groups: list[Gang],
    output: str,
    table: StatusTable,
    *,
    single: bool,
) -> None:
    standings = [standing_of(view, gang) for gang in groups]
    documents = [standing.document() for standing in standings]
    match output:
        case "json" | "yaml":
            text = to_json if output == "json" else to_yaml
            sys.stdout.write(text(documents[0] if single else {"groups": documents}))
        case "name":
            for item in standings:
                kind = item.resource.kind.lower()
                suffix = f".{item.resource.group}" if item.resource.group else ""
                print(visible(f"{kind}{suffix}/{item.gang.ref.name}"))
        case _:
            if not standings:
                no_resources(session)
            table.show(standings)


def _printer(session: CommandSession, options: StatusOptions) -> TablePrinter:
    first = ["NAMESPACE"] if session.all_namespaces else []
    headers = [*first, *COLUMNS, *(WIDE_COLUMNS if options.output == "wide" else ()), *LAST_COLUMNS]
    color = use_color(options.color, sys.stdout)
    return TablePrinter(headers, show_headers=not options.no_headers, color=color)


class StatusTable:
    """Prints rows. `known`: the reservations could be read."""

    def __init__(self, printer: TablePrinter, *, namespaces: bool, wide: bool) -> None:
        self.known = True
        self._namespaces = namespaces
        self._wide = wide
        self._printer = printer

    def show(self, standings: Iterable[Standing]) -> None:
        """Print a row for each group."""
        for line in self._printer.lines([self._row(item) for item in standings]):
            print(line, flush=True)

    def _row(self, item: Standing) -> list[Cell]:
        gang, census, reason = item.gang, item.census, item.reason or "-"
        numbers = (
            gang.min_members,
            census.allocated,
            census.running,
            census.waiting,
            census.succeeded,
            census.failed,
        )
        reserved = item.held_text if self.known or not gang.total else "?"
        return [
            *([Cell(gang.ref.namespace)] if self._namespaces else []),
            Cell(gang.ref.name),
            Cell(item.phase, STYLES.get(item.phase, "")),
            *(Cell(str(number)) for number in numbers),
            *([Cell(reserved), Cell(item.kept.short if item.kept else "-")] if self._wide else []),
            Cell(f"{item.topology} (not enforced)" if item.unenforced else item.topology),
            Cell(reason if len(reason) <= _REASON_WIDTH else reason[: _REASON_WIDTH - 3] + "..."),
            Cell(age(gang.created, time.time())),
        ]
