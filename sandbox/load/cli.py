"""Command line of `muster-sandbox load`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sandbox.options_cli import NumberRange
from scheduler_core.errors import MusterError

_LINE_SECONDS = 5.0
_INTERRUPTED = 130


@click.command(name="load", short_help="Create pods, Jobs and gangs in a sandbox.")
@click.option(
    "--pods", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="Number of pods."
)
@click.option(
    "--rate",
    type=NumberRange(0, min_open=True),
    default=50.0,
    show_default=True,
    help="Pods per second.",
)
@click.option("--namespaces", metavar="NAME,...", help="Use these instead of making namespaces with quotas.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed is another load.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The cluster (default: $KUBECONFIG).")
@click.option("--any-cluster", is_flag=True, help="Allow a cluster that is no sandbox.")
@click.option(
    "--clean", "cleaning", is_flag=True, help="Remove everything that loads have made, and create nothing."
)
def load(
    pods: int,
    rate: float,
    namespaces: str | None,
    seed: int,
    kubeconfig: Path | None,
    any_cluster: bool,
    cleaning: bool,
) -> None:
    """Create pods, Jobs and gangs that run for 5 s to 2 min, and report how long they waited.

    Ctrl-C ends it early; what was created stays.
    """
    # Imported here because `--help` needs no client.
    from sandbox.load import driver
    from scheduler_core.kube.connect import Overrides, connect

    try:
        client, target = connect(Overrides(kubeconfig=str(kubeconfig or "")))
        if not any_cluster:
            driver.check_sandbox(client, target.endpoint.server)
        if cleaning:
            click.echo(f"removed {driver.clean(client)} objects")
            return
        names = [name.strip() for name in (namespaces or "").split(",") if name.strip()]
        places, gangs = driver.prepare(client, names)
        work = driver.Load(client, f"{time.time_ns() // 1_000_000:x}"[-8:], pods, rate)
        with _interruptible(work.stop) as interrupted, _progress(pods) as progress:
            work.run(places, seed, gangs=gangs, progress=progress)
    except MusterError as error:
        raise click.ClickException(str(error)) from None
    for line in work.waits.summary(work.created, work.refusals):
        click.echo(line)
    if interrupted():
        sys.exit(_INTERRUPTED)


@contextmanager
def _interruptible(stop: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Call `stop` on Ctrl-C; gives a function that says whether it was pressed."""
    pressed: list[int] = []

    def press(number: int, frame: Any) -> None:
        pressed.append(number)
        stop()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(pods: int) -> Iterator[Callable[[int, int, int], None]]:
    """A bar on a terminal, otherwise a line every five seconds."""
    if sys.stdout.isatty():
        with click.progressbar(length=pods, label="pods") as bar:
            yield lambda created, total, bound: bar.update(created - bar.pos)
        return
    printed = time.monotonic()

    def line(created: int, total: int, bound: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= _LINE_SECONDS:
            printed = time.monotonic()
            click.echo(f"created {created} of {total} pods, bound {bound}")

    yield line
