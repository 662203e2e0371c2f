"""`kubectl podgroup eta`: flags, help, and when a group starts as text, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kubectl_plugin.cli.global_flags import global_flags
from scheduler_core.model.printable import visible
from scheduler_core.model.timestamps import format_time
from scheduler_core.printing.age import human_duration
from scheduler_core.printing.counts import counted

if TYPE_CHECKING:
    from scheduler_core.answers.eta.answer import Basis, Eta


@click.command(name="eta")
@click.argument("name")
@click.option("--config", default="", metavar="FILE", help="The scheduler's configuration.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Format.")
@global_flags
@click.pass_context
def eta(ctx: click.Context, /, name: str, config: str, output: str) -> None:
    """Estimate when a group starts, and say what the estimate rests on.

    The queue runs forward in a copy of the cluster; nothing is written. Pods are taken to run as long as
    those of the same owner kind in their namespace that have succeeded: a quarter of these ran no longer
    than p25, nine of ten no longer than p90. activeDeadlineSeconds ends them at the latest. Pods of which no
    end is known stay.

    \b
    Examples:
      kubectl podgroup eta train -n team-a
      kubectl podgroup eta train -n team-a -o json
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_view import note_others
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.live.live_world import read_world
    from kubectl_plugin.live.references import reference
    from kubectl_plugin.live.run_times import finished_pods, read_jobs
    from scheduler_core.answers.eta.answer import eta as ask_eta
    from scheduler_core.answers.eta.run_times import times_of
    from scheduler_core.answers.why.subject import POD_GROUP, groups_named, subject_of

    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    _, named = reference([name], POD_GROUP)
    live = read_world(session.client, session.namespace, diagnostics.note, config=config)
    base = live.world.base
    subject = subject_of(base, POD_GROUP, session.namespace, named)
    note_others(groups_named(base, session.namespace, named), diagnostics)
    jobs, missing = read_jobs(session.client, session.namespace)
    for unread in (*live.unread, *([missing] if missing else [])):
        diagnostics.note(f"note: you may not list {unread}: what depends on them is not known")
    found = ask_eta(live.world, subject, times_of(base, finished_pods(live.lists), jobs), live.blind)
    if output == "text":
        for line in lines(found):
            print(visible(line))
        return
    import msgspec

    from kubectl_plugin.render.structured import encoded

    sys.stdout.write(encoded(_document(msgspec.to_builtins(found)), output))


def _document(found: dict[str, object]) -> dict[str, object]:
    """RunTimeRange as the API writes them; what is not known is left out."""
    moments = ("now", "earliest", "median", "latest")
    times = {key: format_time(value) for key in moments if isinstance(value := found[key], float)}
    return {key: value for key, value in found.items() if key not in moments} | times


def lines(found: Eta) -> Iterator[str]:
    """The estimate, and what it rests on."""
    if found.verdict == "runs":
        yield f"{found.group} runs"
        return
    if found.verdict == "now":
        yield f"{found.group} starts now: the next run of the scheduler starts it"
        return
    if found.verdict == "unknown":
        yield f"{found.group}: unknown, because {found.because}"
    else:
        yield f"{found.group} {_interval(found)}"
    yield from _basis(found.basis)
    if found.verdict == "expected" and found.because:
        yield f"latest    unknown, because {found.because}"


def _interval(found: Eta) -> str:
    early, middle, late = (
        None if moment is None else human_duration(moment - found.now)
        for moment in (found.earliest, found.median, found.latest)
    )
    if late is None:
        return f"starts in {early} at the earliest"
    if found.earliest == found.latest:
        return f"starts in {late}"
    return f"starts in {early} to {late}" + (f", by the median in {middle}" if middle is not None else "")


def _basis(basis: Basis) -> Iterator[str]:
    for item in basis.samples:
        times = (human_duration(seconds) for seconds in (item.p25, item.median, item.p90))
        yield (
            f"rests on  {counted(item.running, 'pod')} of kind {item.owner_kind} in {item.namespace}: "
            f"{item.finished} finished ones ran {{}} (p25), {{}} (median), {{}} (p90)".format(*times)
        )
    if basis.deadlines:
        yield f"rests on  {counted(basis.deadlines, 'pod')} with a deadline, which may end sooner"
    if basis.leaving:
        yield f"rests on  {counted(basis.leaving, 'pod')} that are terminating"
    if basis.endless:
        longer = (
            f"; {basis.outlasting} of them ran longer than every finished one" if basis.outlasting else ""
        )
        yield f"but       the end of {counted(basis.endless, 'pod')} is not known{longer}"
