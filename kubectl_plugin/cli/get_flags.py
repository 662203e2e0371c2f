"""The flags of every `get` command, named as in kubectl."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import click

from kubectl_plugin.cli.errors import check_segment

ColorChoice = Literal["auto", "always", "never"]
F = TypeVar("F", bound=Callable[..., Any])

TABLES: Final = ("table", "wide")
STRUCTURED: Final = ("json", "yaml")
GO_TEMPLATES: Final = ("go-template", "go-template-file")
TEMPLATES: Final = ("jsonpath", "custom-columns", *GO_TEMPLATES)
FORMATS: Final = (
    "table|wide|json|yaml|name|jsonpath=TEMPLATE|custom-columns=HEADER:PATH,...|"
    "go-template=TEMPLATE|go-template-file=FILE"
)


@dataclass(frozen=True)
class Output:
    """The output format, and the template, or its file, of a format that has one."""

    format: str = "table"
    template: str = ""


@dataclass(frozen=True)
class GetOptions:
    """The values of the flags."""

    output: Output
    no_headers: bool
    watch: bool
    watch_only: bool
    selector: str
    field_selector: str
    sort_by: str
    label_columns: tuple[str, ...]
    show_labels: bool
    show_managed_fields: bool
    ignore_not_found: bool
    chunk_size: int
    color: ColorChoice

    @property
    def watching(self) -> bool:
        """Whether the command prints changes after the list."""
        return self.watch or self.watch_only


def _output(ctx: click.Context, param: click.Parameter, value: str) -> Output:
    """Split `jsonpath={...}`. Raises click.BadParameter for an unknown format or a missing template."""
    name, equals, template = value.partition("=")
    if name in TEMPLATES:
        if not template:
            raise click.BadParameter(f"{name} needs a template: -o {name}=...")
        return Output(name, template)
    if equals or name not in (*TABLES, *STRUCTURED, "name"):
        raise click.BadParameter(f"{value!r} is not one of {FORMATS}")
    return Output(name)


def _keys(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of `-L a,b -L c`. Raises click.BadParameter for an empty one."""
    keys = tuple(key.strip() for value in values for key in value.split(","))
    if not all(keys):
        raise click.BadParameter("the key of a label may not be empty")
    return keys


_FLAGS: Final = (
    click.option("-o", "--output", default="table", callback=_output, metavar="FORMAT", help=FORMATS),
    click.option("--no-headers", is_flag=True, help="Do not print the header line of the table."),
    click.option("-w", "--watch", is_flag=True, help="After the list, print each change."),
    click.option("--watch-only", is_flag=True, help="Print each change, without the list."),
    click.option("-l", "--selector", default="", metavar="QUERY", help="Label selector: a=b,c!=d,e in (f)."),
    click.option("--field-selector", default="", metavar="QUERY", help="Field selector: metadata.name=x."),
    click.option("--sort-by", default="", metavar="PATH", help="Sort by a field: .metadata.name."),
    click.option(
        "-L",
        "--label-columns",
        multiple=True,
        callback=_keys,
        metavar="KEYS",
        help="Add a column for each of these labels: team,tier; repeatable.",
    ),
    click.option("--show-labels", is_flag=True, help="Add a last column with all labels."),
    click.option("--show-managed-fields", is_flag=True, help="Keep metadata.managedFields in json and yaml."),
    click.option("--ignore-not-found", is_flag=True, help="Exit with code 0 if an object does not exist."),
    click.option(
        "--chunk-size", default=500, type=click.IntRange(0), help="Objects per list; 0: all at once."
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set.",
    ),
)


def get_flags(command: F) -> F:
    """Add the flags of `get`; they arrive as keyword arguments that `GetOptions(**flags)` takes."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def check(options: GetOptions, names: tuple[str, ...], *, all_namespaces: bool) -> None:
    """Refuse names and combinations of flags as kubectl does. Raises click.UsageError, CommandFailed."""
    if not all(names):
        raise click.UsageError("a resource name may not be empty.")
    for name in names:
        check_segment("resource name", name)
    if names and (options.selector or options.field_selector):
        raise click.UsageError("a name cannot be given together with a selector.")
    if names and all_namespaces:
        raise click.UsageError("a resource cannot be retrieved by name across all namespaces.")
    if options.watching and len(names) > 1:
        raise click.UsageError("only one name can be watched.")
    if options.watching and options.sort_by:
        raise click.UsageError("--sort-by cannot be used with --watch.")
    if options.watching and options.output.format in TEMPLATES:
        raise click.UsageError(f"-o {options.output.format} cannot be used with --watch.")
