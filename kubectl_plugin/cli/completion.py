"""The `completion` command, and the hidden command that prints completion candidates.

kubectl runs `kubectl_complete-<plugin>` on PATH with all words. The last word, possibly empty, is being
typed. The program prints one candidate per line and a directive: `:4` tells the shell not to offer files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cli.global_flags import global_flags

PLUGINS: Final = ("elasticquota", "podgroup")


def shim(plugin: str) -> str:
    """The content of the program `kubectl_complete-<plugin>`, in POSIX shell."""
    return f'#!/bin/sh\nexec kubectl-{plugin} __complete "$@"\n'


@click.group(name="completion", short_help="Install or print shell completion.")
@global_flags
def completion() -> None:
    """Set up shell completion of `kubectl elasticquota` and `kubectl podgroup`.

    Requires kubectl's own completion, and the programs that `install` writes on PATH.
    """


@completion.command(name="script", short_help="Print the program that kubectl runs.")
@click.argument("plugin", type=click.Choice(PLUGINS), default=PLUGINS[0])
def script(plugin: str) -> None:
    """Print the program kubectl_complete-PLUGIN."""
    click.echo(shim(plugin), nl=False)


@completion.command(name="install", short_help="Write the programs that kubectl runs.")
@click.option(
    "--dir", "folder", metavar="DIR", help="Directory on PATH; default: the directory of this plugin."
)
def install(folder: str | None) -> None:
    """Write the kubectl_complete programs of both plugins into a directory on PATH."""
    target = Path(folder) if folder else Path(sys.argv[0]).resolve().parent
    if not target.is_dir():
        raise CommandFailed(f"{target} is not a directory")
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
    from kubectl_plugin.cli.candidates import LIMIT, candidates
    from scheduler_core.model.printable import visible

    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    found, directive = candidates(root, words or ("",))
    for candidate in found[:LIMIT]:
        click.echo(visible(candidate))
    click.echo(directive)
