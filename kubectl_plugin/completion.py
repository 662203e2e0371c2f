"""Shell completion as kubectl does it for plugins: `kubectl_complete-<plugin>` on PATH prints the candidates.

The program gets the words so far and the word that is being typed (maybe empty) last, and prints one
candidate a line and a final `:4`, which tells the shell not to offer files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from kubectl_plugin.entry import CommandFailed
from kubectl_plugin.options import global_flags

PLUGINS: Final = ("elasticquota", "podgroup")


def shim(plugin: str) -> str:
    """The program `kubectl_complete-<plugin>`: POSIX shell."""
    return f'#!/bin/sh\nexec kubectl-{plugin} __complete "$@"\n'


@click.group(name="completion", short_help="Install or print shell completion.")
@global_flags
def completion() -> None:
    """Completion of `kubectl elasticquota` and `kubectl podgroup` in the shell.

    It needs kubectl's own completion, and the programs that `install` writes to be on PATH.
    """


@completion.command(name="script", short_help="Print the program that kubectl runs.")
@click.argument("plugin", type=click.Choice(PLUGINS), default=PLUGINS[0])
def script(plugin: str) -> None:
    """Print the program kubectl_complete-PLUGIN."""
    click.echo(shim(plugin), nl=False)


@completion.command(name="install", short_help="Write the programs that kubectl runs.")
@click.option("--dir", "folder", metavar="DIR", help="A folder on PATH; default: where this plugin is.")
def install(folder: str | None) -> None:
    """Write kubectl_complete-elasticquota and kubectl_complete-podgroup into a folder on PATH."""
    target = Path(folder) if folder else Path(sys.argv[0]).resolve().parent
    if not target.is_dir():
        raise CommandFailed(f"{target} is not a folder")
    for plugin in PLUGINS:
        path = target / f"kubectl_complete-{plugin}"
        path.write_text(shim(plugin), encoding="utf-8")
        path.chmod(0o755)
        click.echo(path)
    if str(target) not in os.environ.get("PATH", "").split(os.pathsep):
        click.echo(f"note: {target} is not on PATH", err=True)


@click.command(
    name="__complete", hidden=True, context_settings={"ignore_unknown_options": True}, add_help_option=False
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def complete(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Print the candidates for the last of WORDS, one a line, and kubectl's directive."""
    from kubectl_plugin.candidates import LIMIT, candidates
    from scheduler_core.model.printable import visible

    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    found, directive = candidates(root, words or ("",))
    for candidate in found[:LIMIT]:
        click.echo(visible(candidate))
    click.echo(directive)
