"""`kubectl elasticquota get`: who uses, borrows and lends what, as a table or as it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from kubectl_plugin.figures import Figures
from kubectl_plugin.get_options import GetOptions
from kubectl_plugin.objects_get import Complaints, no_resources, show_batches
from kubectl_plugin.quota_columns import cells, headers, label_text
from kubectl_plugin.session import CommandSession
from kubectl_plugin.snapshot import Selection, take
from kubectl_plugin.table import Cell, TablePrinter, use_color


def print_table(
    session: CommandSession, selection: Selection, options: GetOptions, complaints: Complaints
) -> None:
    """Print what was selected, and what changes if that is asked for. Raises the ApiError tree."""
    wide, namespaces = options.output.format == "wide", session.all_namespaces
    snapshot = take(
        session.client,
        selection,
        wide=wide,
        even_if_none=options.watching,
        on_error=complaints.about_object,
        on_malformed=complaints.about_content,
        note=complaints.note,
    )
    printer = TablePrinter(
        headers(namespaces=namespaces, wide=wide, labels=options.show_labels),
        show_headers=not options.no_headers,
        color=use_color(options.color, sys.stdout),
    )

    def show(rows: Iterable[tuple[Figures, dict[str, str]]]) -> None:
        for line in printer.lines(_table_rows(rows, options, namespaces=namespaces)):
            print(line, flush=options.watching)

    if options.watching:
        if complaints.failed:
            return
        from kubectl_plugin.quota_watch import changed_rows

        batches = changed_rows(session.client, selection, snapshot, wide=wide, note=complaints.note)
        show_batches(batches, show, first=options.watch)
    elif snapshot.chosen:
        show(snapshot.labelled_rows(wide=wide, sort_by=options.sort_by))
    elif not complaints.failed and not options.ignore_not_found:
        no_resources(session)


def _table_rows(
    rows: Iterable[tuple[Figures, dict[str, str]]], options: GetOptions, *, namespaces: bool
) -> list[list[Cell]]:
    now = time.time()
    wide = options.output.format == "wide"
    return [
        cells(
            row,
            now,
            namespaces=namespaces,
            wide=wide,
            labels=label_text(labels) if options.show_labels else None,
        )
        for row, labels in rows
    ]
