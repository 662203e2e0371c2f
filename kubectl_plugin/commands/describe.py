"""The flags and the output of both `describe` commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubectl_plugin.cli.errors import AlreadyReported

if TYPE_CHECKING:
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.inspection.description import Description

F = TypeVar("F", bound=Callable[..., Any])


def describe_flags(command: F) -> F:
    """Add the argument NAME, any number of times, and the output format."""
    output = click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        help="Output format.",
    )
    return click.argument("names", nargs=-1, metavar="[NAME]...")(output(command))


def check_names(session: CommandSession, names: tuple[str, ...], check: Callable[[str], None]) -> None:
    """Refuse empty and malformed names, and names beside -A. Raises click.UsageError, CommandFailed."""
    if not all(names):
        raise click.UsageError("a resource name may not be empty.")
    for name in names:
        check(name)
    if names and session.all_namespaces:
        raise click.UsageError("a resource cannot be retrieved by name across all namespaces.")


def print_descriptions(
    session: CommandSession, found: Iterable[Description], output: str, diagnostics: Diagnostics
) -> None:
    """Print descriptions, with two empty lines between them. Raises AlreadyReported after printed errors."""
    from kubectl_plugin.commands.get import no_resources
    from kubectl_plugin.inspection.description import lines
    from kubectl_plugin.render.structured import encoded

    if output != "text":
        documents = [item.document() for item in found]
        sys.stdout.write(encoded({"descriptions": documents}, output))
    else:
        texts = ["\n".join(lines(item, time.time())) for item in found]
        if texts:
            print("\n\n\n".join(texts))
        elif not diagnostics.failed:
            no_resources(session)
    if diagnostics.failed:
        raise AlreadyReported
