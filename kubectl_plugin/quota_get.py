"""`kubectl elasticquota get`: who uses, borrows and lends what."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from kubectl_plugin.entry import AlreadyReported
from kubectl_plugin.get_options import TABLES, GetOptions, check, get_flags
from kubectl_plugin.objects_get import Complaints, no_resources, print_objects
from kubectl_plugin.options import global_flags
from kubectl_plugin.quota_columns import cells, headers, label_text
from kubectl_plugin.reading import Scope
from kubectl_plugin.session import CommandSession
from kubectl_plugin.snapshot import Selection, Snapshot, select_raw, take
from kubectl_plugin.table import Cell, TablePrinter, use_color
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.kinds import ELASTIC_QUOTAS


@click.command(name="get", short_help="Show quotas: used, min, max, hard, borrowed, lent.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@get_flags
@global_flags
@click.pass_context
def get(ctx: click.Context, names: tuple[str, ...], **flags: Any) -> None:
    """Show ElasticQuotas, one row per quota and resource.

    The figures are computed from live pods and quotas, whether or not a scheduler is running: USED counts
    every pod that has a node and is not finished; BORROWED is use above MIN; LENT is what other quotas use
    of this quota's unused MIN; HARD is the smallest matching limit of the namespace's ResourceQuotas.

    \b
    Examples:
      kubectl elasticquota get -A
      kubectl elasticquota get quota -n team-a -o wide
      kubectl elasticquota get -w
      kubectl elasticquota get -A -o json
    """
    options = GetOptions(**flags)
    session = CommandSession.of(ctx)
    check(options, names, all_namespaces=session.all_namespaces)
    scope = Scope(session.scope, options.selector, options.field_selector, options.chunk_size)
    selection = Selection(scope, names)
    if options.watch or options.watch_only:
        from kubectl_plugin.quota_watch import watch

        watch(session.client, selection, options)
        return
    complaints = Complaints(ignore_not_found=options.ignore_not_found)
    if options.output.format in TABLES:
        _print_table(session, selection, options, complaints)
    else:
        raw = select_raw(session.client, ELASTIC_QUOTAS, selection, complaints.about_object)
        print_objects(raw, ELASTIC_QUOTAS, options, single=len(names) == 1)
    if complaints.failed:
        raise AlreadyReported


def _print_table(
    session: CommandSession, selection: Selection, options: GetOptions, complaints: Complaints
) -> None:
    wide = options.output.format == "wide"
    snapshot = take(
        session.client,
        selection,
        wide=wide,
        on_error=complaints.about_object,
        on_malformed=complaints.about_content,
        note=complaints.note,
    )
    if not snapshot.chosen:
        if not complaints.failed and not options.ignore_not_found:
            no_resources(session)
        return
    if options.sort_by:
        _sort(snapshot, options.sort_by)
    for line in table(options, namespaces=session.all_namespaces).lines(
        table_rows(snapshot, options, namespaces=session.all_namespaces, now=time.time())
    ):
        print(line)


def table(options: GetOptions, *, namespaces: bool) -> TablePrinter:
    """The printer of the columns that the flags ask for."""
    wide = options.output.format == "wide"
    return TablePrinter(
        headers(namespaces=namespaces, wide=wide, labels=options.show_labels),
        show_headers=not options.no_headers,
        color=use_color(options.color, sys.stdout),
    )


def table_rows(snapshot: Snapshot, options: GetOptions, *, namespaces: bool, now: float) -> list[list[Cell]]:
    """All rows of the table, quota by quota."""
    wide = options.output.format == "wide"
    by_key: dict[tuple[str, str], ElasticQuota] = {(q.namespace, q.name): q for q in snapshot.chosen}
    return [
        cells(
            row,
            now,
            namespaces=namespaces,
            wide=wide,
            labels=label_text(by_key[row.namespace, row.name].labels) if options.show_labels else None,
        )
        for row in snapshot.rows(wide=wide)
    ]
