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
    from kubectl_plugin.cluster.cluster_view import ClusterView
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.quota_rows import QuotaRow
    from kubectl_plugin.cluster.quota_snapshot import ObjectSelection
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.table import Cell


@click.command(name="get")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--tree", is_flag=True, help="Show all QuotaGroups with their quotas, as a tree.")
@click.option(
    "--figures", is_flag=True, help="With -o json or yaml: the figures of the wide table, not the objects."
)
@get_flags
@global_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], tree: bool, figures: bool, **flags: Any) -> None:
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
      kubectl elasticquota get -A --figures -o json
    """
    from kubectl_plugin.cluster.object_source import OneKind
    from kubectl_plugin.commands.get import run_get
    from scheduler_core.model.kinds import ELASTIC_QUOTAS

    options = GetOptions(**flags)
    if tree:
        _print_tree(ctx, names, options)
        return
    if figures:
        _print_figures(ctx, names, options)
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


def _print_figures(ctx: click.Context, names: tuple[str, ...], options: GetOptions) -> None:
    """Print the figures of the selected quotas as a document. Raises UsageError for other formats."""
    from kubectl_plugin.cli.errors import AlreadyReported
    from kubectl_plugin.cli.get_flags import STRUCTURED, check
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_tree import UNKNOWN_GROUPS, group_figures
    from kubectl_plugin.cluster.quota_figures import figures_document, totals_of
    from kubectl_plugin.cluster.quota_snapshot import ObjectSelection, take_snapshot
    from kubectl_plugin.cluster.reading import ListScope
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import encoded

    output = options.output.format
    if output not in STRUCTURED or options.watching:
        raise click.UsageError("--figures needs -o json or -o yaml, without --watch.")
    session = CommandSession.of(ctx)
    check(options, names, all_namespaces=session.all_namespaces)
    diagnostics = Diagnostics(ignore_not_found=options.ignore_not_found)
    scope = ListScope(session.scope, options.selector, options.field_selector, options.chunk_size)
    snapshot = take_snapshot(
        session.client,
        ObjectSelection(scope, names),
        wide=True,
        even_if_none=True,
        on_error=diagnostics.object_error,
        on_malformed=diagnostics.unreadable,
        note=diagnostics.note,
    )
    rows = [row for row, _ in snapshot.rows_with_labels(wide=True, sort_by=options.sort_by)]
    totals = groups = None
    if snapshot.whole and snapshot.groups:
        groups = group_figures(snapshot.view.ledger)
    elif snapshot.whole:
        diagnostics.note(UNKNOWN_GROUPS)
    if snapshot.whole:
        totals = totals_of(snapshot.view, _capacity(session, snapshot.view, diagnostics))
    sys.stdout.write(encoded(figures_document(rows, groups, totals), output))
    if diagnostics.failed:
        raise AlreadyReported


def _capacity(session: CommandSession, view: ClusterView, diagnostics: Diagnostics) -> dict[str, int] | None:
    """What the nodes have of each resource, and of flavors if one is named; None without the right."""
    from kubectl_plugin.cluster.node_flavors import names_flavors, quota_flavors
    from kubectl_plugin.cluster.quota_figures import capacity_of
    from kubectl_plugin.cluster.reading import ListScope, list_or_none, parsed
    from scheduler_core.model.kinds import NODES
    from scheduler_core.model.node import parse_node

    nodes = list_or_none(session.client, NODES, ListScope())
    if nodes is None:
        return None
    flavors = quota_flavors(session.client) if names_flavors(view.limits()) else None
    return capacity_of(parsed(nodes, parse_node, diagnostics.unreadable), flavors or ())


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
