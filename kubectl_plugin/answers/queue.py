"""`kubectl elasticquota queue`: flags, help, and what waits in the scheduler's order."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import ABSENT, UNKNOWN, Cell, TablePrinter
from scheduler_core.model.kinds import PODS
from scheduler_core.model.printable import visible

if TYPE_CHECKING:
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.live.live_world import LiveWorld
    from scheduler_core.answers.queue.advice import Advice, QueueAdvice, StartRange
    from scheduler_core.answers.queue.waiting import UnitKey, WaitingQueue, WaitingUnit

HEADERS: Final = ("POSITION", "NAMESPACE", "WORK", "PODS", "PRIORITY", "WAITS", "CAUSE", "STARTS", "STEP")
# Seconds for estimates, and then for steps.
_ESTIMATE_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 15.0


@click.command(name="queue")
@click.option(
    "--first", default=10, type=click.IntRange(0), help="For how much of it times and steps are told."
)
@click.option("--steps/--no-steps", default=True, help="Whether to look for the step that starts the work.")
@click.option("--config", default="", metavar="FILE", help="The scheduler's configuration.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="Output format; wide adds the scheduler's message.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@global_flags
@click.pass_context
def queue(ctx: click.Context, /, first: int, steps: bool, config: str, output: str, no_headers: bool) -> None:
    """Show what waits in the cluster, in the order in which the scheduler tries it.

    The scheduler runs once on a copy of the cluster; nothing is written. CAUSE is what stops the work:
    gates, gang (members are missing), quota, topology, load, nodes, or kept (nodes are being freed for it).
    STARTS is an interval as of `kubectl podgroup eta`, STEP the least change that starts the work now, as
    of `kubectl elasticquota why`; both are told for the --first of it. With a namespace only its own work is
    shown, with its position in the whole queue. Who may not list nodes, and pods and quotas of all
    namespaces, sees the waiting work of the own namespace as its conditions tell, without positions.

    \b
    Examples:
      kubectl elasticquota queue -A
      kubectl elasticquota queue -n team-a -o wide
      kubectl elasticquota queue -A --no-steps -o json
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.live.live_world import read_world
    from kubectl_plugin.render.structured import encoded
    from scheduler_core.answers.changes import NOTHING
    from scheduler_core.answers.queue.waiting import WaitingQueue, queue_of, told_queue

    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    live = read_world(session.client, session.namespace, diagnostics.note, config=config)
    for missing in live.unread:
        diagnostics.note(f"note: you may not list {missing}: what depends on them is not known")
    base = live.world.base
    found = told_queue(base) if live.blind else live.world.ask(NOTHING, queue_of, WaitingQueue)
    shown = [unit for unit in found.units if session.scope in ("", unit.namespace)]
    advice = advice_for(session, live, [] if live.blind else shown[:first], steps=steps)
    if output in ("json", "yaml"):
        sys.stdout.write(encoded(document(found, shown, advice, live.blind), output))
    elif shown:
        printer = TablePrinter(_headers(output), show_headers=not no_headers)
        for line in printer.lines(list(_rows(shown, advice, time.time(), wide=output == "wide"))):
            print(line)
    else:
        diagnostics.note(_nothing(session, live.blind))


def _nothing(session: CommandSession, unread: Sequence[str]) -> str:
    """What to say where no waiting work was found."""
    if PODS.plural in unread:
        return "What waits is not known: you may not list pods."
    where = f" in {session.namespace} namespace"
    if session.all_namespaces and any(name.startswith(f"{PODS.plural} ") for name in unread):
        return f"Nothing waits{where}; what waits in others is not known."
    return "Nothing waits." if session.all_namespaces else f"Nothing waits{where}."


def advice_for(session: Any, live: LiveWorld, units: Sequence[WaitingUnit], *, steps: bool) -> QueueAdvice:
    """When the units start, and what would start them."""
    from kubectl_plugin.live.run_times import finished_pods, read_jobs
    from scheduler_core.answers.eta.run_times import times_of
    from scheduler_core.answers.queue.advice import QueueAdvice, advise

    if not units:
        return QueueAdvice()
    jobs, _ = read_jobs(session.client, session.namespace)
    times = times_of(live.world.base, finished_pods(live.lists), jobs)
    estimated = time.monotonic() + _ESTIMATE_SECONDS
    searched = estimated + _STEP_SECONDS
    return advise(
        live.world,
        units,
        times,
        estimates=lambda: time.monotonic() > estimated,
        steps=lambda: not steps or time.monotonic() > searched,
    )


def document(
    found: WaitingQueue, shown: Sequence[WaitingUnit], advice: QueueAdvice, unread: Sequence[str] = ()
) -> dict[str, Any]:
    """The queue for JSON and YAML, times as the API writes them.

    `unread`: what a run of the scheduler needs and could not be read. What is not known is left out or null.
    """
    told = by_unit(advice)
    entries = [_entry(unit, told.get(unit.key)) for unit in shown]
    counted = PODS.plural not in unread
    return {
        "length": len(found.units) if counted else None,
        "startingPods": None if unread else found.starting,
        "evictedPods": None if unread else found.evicted,
        "waiting": entries if counted else None,
        **({"unread": list(unread)} if unread else {}),
    }


def by_unit(advice: QueueAdvice) -> dict[UnitKey, Advice]:
    """The advice by the key of its unit."""
    return {item.key: item for item in advice.advice}


def _work(unit: WaitingUnit) -> str:
    """The work as the argument of other commands: `pod/a`, `podgroup/train`, `podgroup/native/train`."""
    from scheduler_core.model.groups.gang import DIALECT_NAMES

    dialect = f"{unit.dialect}/" if unit.dialect not in ("", DIALECT_NAMES["PodGroup"]) else ""
    return f"{unit.kind.lower()}/{dialect}{unit.name}"


def _entry(unit: WaitingUnit, advice: Advice | None) -> dict[str, Any]:
    from scheduler_core.model.timestamps import format_time

    entry: dict[str, Any] = {
        "position": unit.position,
        "kind": unit.kind,
        "namespace": unit.namespace,
        "name": unit.name,
        **({"dialect": unit.dialect} if unit.dialect else {}),
        "pods": unit.pods,
        "priority": unit.priority,
        "since": format_time(unit.since),
        "cause": unit.cause,
        "message": unit.message,
        "nodes": list(unit.nodes),
    }
    if advice is None:
        return entry
    moments = {name: getattr(advice.start, name) for name in ("earliest", "median", "latest")}
    starts = {name: format_time(moment) for name, moment in moments.items() if moment is not None}
    told = {
        "step": advice.step,
        "whatIf": advice.what_if,
        "evicts": list(advice.evicts),
        "delays": list(advice.delays),
        "never": advice.never,
    }
    return entry | {"starts": starts} | {name: value for name, value in told.items() if value}


def losers_text(advice: Advice, *, named: bool = True) -> str:
    """`evicts 1 pod: b/old; delays 2 pods: b/new, c/new`: who loses by the step; `named`: with names."""
    from scheduler_core.printing.counts import counted, names_text

    parts = []
    for word, pods in (("evicts", advice.evicts), ("delays", advice.delays)):
        if pods:
            # Hidden names are all alike.
            names = f": {names_text(dict.fromkeys(pods))}" if named else ""
            parts.append(f"{word} {counted(len(pods), 'pod')}{names}")
    return "; ".join(parts)


def _step_text(advice: Advice, *, wide: bool) -> str:
    """The step with who loses by it; else why nothing helps."""
    losers = losers_text(advice, named=wide)
    return f"{advice.step} ({losers})" if losers else advice.step or advice.never or ABSENT


def _headers(output: str) -> list[str]:
    return [*HEADERS, *(["MESSAGE"] if output == "wide" else [])]


def _rows(
    units: Sequence[WaitingUnit], advice: QueueAdvice, now: float, *, wide: bool
) -> Iterator[list[Cell]]:
    from scheduler_core.printing.age import human_duration

    told = by_unit(advice)
    for unit in units:
        known = told.get(unit.key)
        texts = [
            str(unit.position) if unit.position else UNKNOWN,
            unit.namespace,
            _work(unit),
            str(unit.pods),
            str(unit.priority),
            human_duration(now - unit.since),
            unit.cause,
            interval_text(known.start, now) if known is not None else ABSENT,
            _step_text(known, wide=wide) if known is not None else ABSENT,
            *([unit.message or ABSENT] if wide else []),
        ]
        yield [Cell(visible(text)) for text in texts]


def interval_text(start: StartRange, now: float) -> str:
    """`5m to 2h`, `now`, `5m at the earliest`; `?` where nothing is known."""
    from scheduler_core.printing.age import human_duration

    if start.earliest is None:
        return "?"
    if start.latest is not None and start.latest <= now:
        return "now"
    early = human_duration(max(0.0, start.earliest - now))
    if start.latest is None:
        return f"{early} at the earliest"
    late = human_duration(max(0.0, start.latest - now))
    return early if early == late else f"{early} to {late}"
