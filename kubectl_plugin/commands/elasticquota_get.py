"""`kubectl elasticquota get`: flags, help and the table. The columns are in `elasticquota_get_columns`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kubectl_plugin.cli.get_flags import GetOptions, get_flags
from kubectl_plugin.cli.global_flags import global_flags

if TYPE_CHECKING:
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.quota_rows import QuotaRow
    from kubectl_plugin.cluster.quota_snapshot import ObjectSelection
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.table import Cell


@click.command(name="get")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--tree", is_flag=True, help="Show all QuotaGroups with their quotas, as a tree.")
@get_flags
@global_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], tree: bool, **flags: Any) -> None:
    """Show ElasticQuotas, one row per quota and resource.

    The figures are computed from live pods and quotas, whether or not a scheduler is running: USED counts
    every unfinished pod that has a node or was charged at its creation; BORROWED is use above
    MIN; LENT is what other quotas use of this quota's unused MIN; HARD is the smallest matching limit of the
    namespace's ResourceQuotas.

    \b
    Examples:
      kubectl elasticquota get -A
      kubectl elasticquota get quota -n team-a -o wide
      kubectl elasticquota get -A -L team
      kubectl elasticquota get -w
      kubectl elasticquota get -A -o json
      kubectl elasticquota get --tree
    """
    from kubectl_plugin.cluster.object_source import OneKind
    from kubectl_plugin.commands.get import run_get
    from scheduler_core.model.kinds import ELASTIC_QUOTAS

    options = GetOptions(**flags)
    if tree:
        _print_tree(ctx, names, options)
        return
    run_get(ctx, OneKind(ELASTIC_QUOTAS), names, options, print_table)


def _print_tree(ctx: click.Context, names: tuple[str, ...], options: GetOptions) -> None:
    """Print the tree of the whole cluster. Raises UsageError for flags that choose or change rows."""
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.commands.elasticquota_group_tree import print_group_tree

    output = options.output.format
    if names or options.watching or options.sort_by or output not in ("table", "json", "yaml"):
        raise click.UsageError("--tree shows the whole tree, as a table, JSON or YAML.")
    print_group_tree(CommandSession.of(ctx), output, show_headers=not options.no_headers)


def print_table(
    session: CommandSession, selection: ObjectSelection, options: GetOptions, diagnostics: Diagnostics
) -> None:
    """Print the selected quotas, and their changes with --watch. Raises the ApiError tree."""
    from kubectl_plugin.cluster.quota_snapshot import take_snapshot
    from kubectl_plugin.commands.elasticquota_get_columns import headers
    from kubectl_plugin.commands.get import no_resources, show_batches
    from kubectl_plugin.render.table import TablePrinter, use_color

    wide, namespaces = options.output.format == "wide", session.all_namespaces
    snapshot = take_snapshot(
        session.client,
        selection,
        wide=wide,
        even_if_none=options.watching,
        on_error=diagnostics.object_error,
        on_malformed=diagnostics.unreadable,
        note=diagnostics.note,
    )
    printer = TablePrinter(
        headers(namespaces=namespaces, wide=wide, labels=options.show_labels, keys=options.label_columns),
        show_headers=not options.no_headers,
        color=use_color(options.color, sys.stdout),
    )

    def show(rows: Iterable[tuple[QuotaRow, dict[str, str]]]) -> None:
        for line in printer.lines(_table_rows(rows, options, namespaces=namespaces)):
            print(line, flush=options.watching)

    if options.watching:
        if diagnostics.failed:
            return
        from kubectl_plugin.cluster.quota_watch import changed_rows

        batches = changed_rows(session.client, selection, snapshot, wide=wide, note=diagnostics.note)
        show_batches(batches, show, first=options.watch)
    elif snapshot.chosen:
        show(snapshot.rows_with_labels(wide=wide, sort_by=options.sort_by))
    elif not diagnostics.failed and not options.ignore_not_found:
        no_resources(session)


def _table_rows(
    rows: Iterable[tuple[QuotaRow, dict[str, str]]], options: GetOptions, *, namespaces: bool
) -> list[list[Cell]]:
    from kubectl_plugin.commands.elasticquota_get_columns import cells
    from kubectl_plugin.render.table import label_cells, label_text

    now = time.time()
    wide = options.output.format == "wide"
    return [
        cells(
            row,
            now,
            namespaces=namespaces,
            wide=wide,
            labels=label_text(labels) if options.show_labels else None,
            chosen=label_cells(labels, options.label_columns),
        )
        for row, labels in rows
    ]
