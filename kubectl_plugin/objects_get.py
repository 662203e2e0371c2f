"""What every `get` does alike: objects in their own form, and complaints that do not stop the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click
import msgspec

from kubectl_plugin.entry import AlreadyReported
from kubectl_plugin.failures import describe
from kubectl_plugin.get_options import TABLES, GetOptions, check
from kubectl_plugin.reading import Scope
from kubectl_plugin.session import CommandSession
from kubectl_plugin.snapshot import Selection, select_raw
from kubectl_plugin.structured import decoded, listed, name_line, to_json, to_yaml
from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, NotFound
from scheduler_core.model.kinds import Resource
from scheduler_core.model.printable import visible, visible_lines

T = TypeVar("T")


class Complaints:
    """One line on stderr for whatever could not be shown; `failed` decides the exit code."""

    def __init__(self, *, ignore_not_found: bool = False) -> None:
        self._ignore_not_found = ignore_not_found
        self.failed = False

    def about_object(self, error: ApiError) -> None:
        """An object that was asked for by name and cannot be had."""
        if self._ignore_not_found and isinstance(error, NotFound):
            return
        self.failed = True
        self.note(describe(error))

    def about_content(self, error: ModelError) -> None:
        """An object that exists and cannot be read: it is left out of the figures."""
        self.failed = True
        self.note(f"error: {error}")

    def note(self, text: str) -> None:
        """Something that the reader of the table should know."""
        print(visible(" ".join(text.split())), file=sys.stderr)


PrintTable = Callable[[CommandSession, Selection, GetOptions, Complaints], None]


def run_get(
    ctx: click.Context,
    resource: Resource,
    names: tuple[str, ...],
    options: GetOptions,
    print_table: PrintTable,
) -> None:
    """Carry out a `get`: as a table by `print_table`, in any other form as the server holds the objects.

    Raises the ApiError tree, KubeconfigError, click.UsageError; AlreadyReported if there were complaints.
    """
    session = CommandSession.of(ctx)
    check(options, names, all_namespaces=session.all_namespaces)
    scope = Scope(session.scope, options.selector, options.field_selector, options.chunk_size)
    selection = Selection(scope, names)
    complaints = Complaints(ignore_not_found=options.ignore_not_found)
    if options.output.format in TABLES:
        print_table(session, selection, options, complaints)
    else:
        get_objects(session.client, resource, selection, options, complaints)
    if complaints.failed:
        raise AlreadyReported


def no_resources(session: CommandSession) -> None:
    """kubectl's words for an empty table; not an error."""
    where = "" if session.all_namespaces else f" in {session.namespace} namespace."
    print(f"No resources found{where}", file=sys.stderr)


def get_objects(
    client: Client, resource: Resource, selection: Selection, options: GetOptions, complaints: Complaints
) -> None:
    """`get` in a form other than a table: the objects as the server holds them."""
    raw = select_raw(client, resource, selection, complaints.about_object)
    if not options.watching:
        print_objects(raw, resource, options, single=len(selection.names) == 1)
        return
    if complaints.failed:
        return
    from kubectl_plugin.objects_watch import changed_objects

    printed = False

    def show(items: list[bytes]) -> None:
        nonlocal printed
        for item in items:
            if printed and options.output.format == "yaml":
                print("---")
            print_objects([item], resource, options, single=True)
            printed = True
        sys.stdout.flush()

    show_batches(changed_objects(client, resource, selection, complaints.note), show, first=options.watch)


def show_batches(batches: Iterable[T], show: Callable[[T], None], *, first: bool) -> None:
    """Show each batch as it comes; the first is what existed at the start, which --watch-only leaves out."""
    wanted = first
    for batch in batches:
        if wanted:
            show(batch)
        wanted = True


def print_objects(
    items: Sequence[msgspec.Raw | bytes], resource: Resource, options: GetOptions, *, single: bool
) -> None:
    """Print objects as -o asks. `single`: one was asked for by name; it stands alone, not in a List."""
    objects = decoded(items, resource, managed_fields=options.show_managed_fields)
    if options.sort_by:
        from kubectl_plugin.jsonpath import sort_order

        objects = [objects[i] for i in sort_order(objects, options.sort_by)]
    if single and not objects:
        return
    document = objects[0] if single else listed(objects)
    match options.output.format:
        case "json":
            sys.stdout.write(to_json(document))
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case "name":
            for item in objects:
                print(visible(name_line(item, resource)))
        case "jsonpath":
            from kubectl_plugin.jsonpath import render

            text = render(options.output.template, document)
            # A program may want the bytes as they are; a terminal would obey them.
            sys.stdout.write(visible_lines(text) if sys.stdout.isatty() else text)
        case "custom-columns":
            from kubectl_plugin.custom_columns import column_lines

            for line in column_lines(options.output.template, objects, show_headers=not options.no_headers):
                print(line)
