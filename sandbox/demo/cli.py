"""The command line of the demo. What it plays is imported when it runs."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from scheduler_core.errors import MusterError

TERMINATED = 143


@click.command(name="demo", short_help="Play a tour of Muster with real kubectl.")
@click.option(
    "--chapter",
    "chapters",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Only this chapter; may be repeated. What it builds on is played unseen.",
)
@click.option("--list", "only_list", is_flag=True, help="List the chapters.")
@click.option("--pause", is_flag=True, help="Wait for Enter before each command.")
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write what scheduler and webhook print.",
)
def demo(chapters: tuple[int, ...], only_list: bool, pause: bool, log: Path | None) -> None:
    """Play a tour of Muster: a Kubernetes API in this process, scheduler and webhook beside it, real kubectl.

    Every line that begins with `$` is a command, what follows is its output. The tour checks itself: the exit
    code is 1 if anything comes out differently from what the text says.
    """
    from sandbox.demo.play import chosen, listing, play

    if only_list:
        click.echo("\n".join(listing()))
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        play(chosen(chapters), pause=pause, log=log)
    except MusterError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{where}{error.strerror or error}") from None


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """As Ctrl-C, so that what was started is ended."""
    sys.exit(TERMINATED)
