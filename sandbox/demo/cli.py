"""Command line of the demo; the chapters are imported when the demo runs."""

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
    help="Play only this chapter; may be repeated. Chapters that it needs run without output.",
)
@click.option("--list", "only_list", is_flag=True, help="List the chapters.")
@click.option("--pause", is_flag=True, help="Wait for Enter before each command.")
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the output of scheduler and webhook to FILE.",
)
@click.option(
    "--controllers",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Play the chapters that need real controllers. DIR has etcd, kube-apiserver, "
    "kube-controller-manager, jobset and jobset-crd.yaml; `make demo-controllers` builds them.",
)
@click.option(
    "--without-kubectl",
    is_flag=True,
    help="Play with Muster's plugins and the official Python client. What needs kubectl is left out. "
    "This is the default if MUSTER_NO_BUILD=1 is set and kubectl is not on PATH.",
)
@click.option(
    "--ui",
    "ui",
    is_flag=True,
    help="Then show the cluster in a browser until Ctrl-C. Without --chapter, three chapters run without "
    "output.",
)
@click.option("--open/--no-open", "opens", default=True, help="With --ui: whether to open the browser.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Write what was played to FILE.svg, as an animated picture. A file that shows the same stays.",
)
def demo(
    chapters: tuple[int, ...],
    only_list: bool,
    pause: bool,
    log: Path | None,
    controllers: Path | None,
    without_kubectl: bool,
    ui: bool,
    opens: bool,
    record: Path | None,
) -> None:
    """Play a tour of Muster with real kubectl. This process runs a Kubernetes API, scheduler and webhook.

    Each line that begins with `$` is a command; its output follows. The tour checks its own output: the exit
    code is 1 if an output differs from the expected one.
    """
    from sandbox.demo.chapters import chosen, listing
    from sandbox.demo.commands import kubectl_is_out_of_reach
    from sandbox.demo.tour import WORTH_A_LOOK, Tour, play
    from sandbox.demo.view import View

    if only_list:
        click.echo("\n".join(listing()))
        return
    if controllers and without_kubectl:
        raise click.UsageError("--controllers needs kubectl; leave out --without-kubectl")
    signal.signal(signal.SIGTERM, _terminate)
    do_without = without_kubectl or (controllers is None and kubectl_is_out_of_reach())
    try:
        numbers = chosen(chapters or (WORTH_A_LOOK if ui else ()), real=controllers is not None)
        if record:
            _check_writable(record)
        view = View(opens=opens, quiet=not chapters) if ui else None
        play(Tour(numbers, pause, log, record, controllers, with_kubectl=not do_without, view=view))
    except MusterError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{where}{error.strerror or error}") from None


def _check_writable(path: Path) -> None:
    """Raise OSError for a file that cannot be written, before a minute is spent on what it shall show."""
    new = not path.exists()
    path.open("ab").close()
    if new:
        path.unlink()


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """Exit on SIGTERM as on Ctrl-C, so that all started processes are stopped."""
    sys.exit(TERMINATED)
