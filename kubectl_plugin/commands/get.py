"""The run of both `get` commands, and their output in forms other than a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.get_flags import GO_TEMPLATES, TABLES, GetOptions, check
from kubectl_plugin.cli.global_flags import connection_of
from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.object_source import FoundObject, ObjectSource
from kubectl_plugin.cluster.quota_snapshot import ObjectSelection
from kubectl_plugin.cluster.reading import ListScope
from kubectl_plugin.cluster.session import CommandSession
from kubectl_plugin.render.structured import decoded, encoded, listed, name_line
from scheduler_core.kube.client import Client
from scheduler_core.model.printable import visible, visible_lines

T = TypeVar("T")


PrintTable = Callable[[CommandSession, ObjectSelection, GetOptions, Diagnostics], None]


def run_get(
    ctx: click.Context,
    source: ObjectSource,
    names: tuple[str, ...],
    options: GetOptions,
    print_table: PrintTable,
) -> None:
    """Carry out a `get`: a table by `print_table`, any other form from the objects of the API server.

    kubectl prints Go templates.

    Raises the ApiError tree, KubeconfigError, click.UsageError; AlreadyReported after printed errors.
    """
    session = CommandSession.of(ctx)
    check(options, names, all_namespaces=session.all_namespaces)
    scope = ListScope(session.scope, options.selector, options.field_selector, options.chunk_size)
    selection = ObjectSelection(scope, names)
    diagnostics = Diagnostics(ignore_not_found=options.ignore_not_found)
    if options.output.format in TABLES:
        print_table(session, selection, options, diagnostics)
    elif options.output.format in GO_TEMPLATES:
        from kubectl_plugin.cli.official_kubectl import print_go_template

        what = source.arguments(session.client, selection, diagnostics)
        everywhere = session.all_namespaces
        if what:
            print_go_template(what, options, connection_of(ctx), all_namespaces=everywhere)
    else:
        get_objects(session.client, source, selection, options, diagnostics)
    if diagnostics.failed:
        raise AlreadyReported


def no_resources(session: CommandSession) -> None:
    """Print kubectl's message for an empty table; not an error."""
    where = "" if session.all_namespaces else f" in {session.namespace} namespace."
    print(f"No resources found{where}", file=sys.stderr)


def get_objects(
    client: Client,
    source: ObjectSource,
    selection: ObjectSelection,
    options: GetOptions,
    diagnostics: Diagnostics,
) -> None:
    """Print the selected objects in a form other than a table, and their changes with --watch."""
    found = source.select(client, selection, diagnostics)
    if not options.watching:
        print_objects(found, options, single=len(selection.names) == 1 and len(found) < 2)
        return
    if diagnostics.failed:
        return
    printed = False

    def show(items: list[FoundObject]) -> None:
        nonlocal printed
        for item in items:
            if printed and options.output.format == "yaml":
                print("---")
            print_objects([item], options, single=True)
            printed = True
        sys.stdout.flush()

    show_batches(source.changes(client, selection, diagnostics.note), show, first=options.watch)


def show_batches(batches: Iterable[T], show: Callable[[T], None], *, first: bool) -> None:
    """Show each batch. The first batch has the existing objects; `first` False (--watch-only) skips it."""
    wanted = first
    for batch in batches:
        if wanted:
            show(batch)
        wanted = True


def print_objects(items: Sequence[FoundObject], options: GetOptions, *, single: bool) -> None:
    """Print objects in the format of -o. `single`: one object was named, so it is printed without a List."""
    objects = [decoded(item.raw, item.resource, managed_fields=options.show_managed_fields) for item in items]
    kinds = [item.resource for item in items]
    if options.sort_by:
        from kubectl_plugin.render.jsonpath_template import sort_order

        order = sort_order(objects, options.sort_by)
        objects, kinds = [objects[i] for i in order], [kinds[i] for i in order]
    if single and not objects:
        return
    document = objects[0] if single else listed(objects)
    match options.output.format:
        case "json" | "yaml" as form:
            sys.stdout.write(encoded(document, form))
        case "name":
            for item, resource in zip(objects, kinds, strict=True):
                print(visible(name_line(item["metadata"]["name"], resource)))
        case "jsonpath":
            from kubectl_plugin.render.jsonpath_template import render

            text = render(options.output.template, document)
            # Escape control characters on a terminal only; programs get the exact text.
            sys.stdout.write(visible_lines(text) if sys.stdout.isatty() else text)
        case "custom-columns":
            from kubectl_plugin.render.custom_columns import column_lines

            for line in column_lines(options.output.template, objects, show_headers=not options.no_headers):
                print(line)
