"""`kubectl elasticquota history`: flags, help, and what was taken back, as table, JSON, YAML or CSV."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import ABSENT, UNKNOWN, Cell, TablePrinter

if TYPE_CHECKING:
    from scheduler_core.answers.history import Reclaim

# Number of pods that a row of the table names.
MOST_PODS: Final = 3
_FIELDS: Final = ("time", "kind", "namespace", "quota", "resources", "pods", "count", "by", "byQuota")


@click.command(name="history")
@click.option(
    "--since",
    default="24h",
    metavar="TIME",
    help="How far to look back, as 30m, 24h; default: 24h. Events are kept for an hour by default.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "csv"]),
    default="table",
    help="Output format.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@global_flags
@click.pass_context
def history(ctx: click.Context, /, since: str, output: str, no_headers: bool) -> None:
    """Show what was taken from a namespace: when, which pods, by whom, and for whose quota; newest last.

    It reads Events, which the API server deletes after an hour by default, and status.lastReclaim of the
    ElasticQuotas, which has the last reclaim of each quota however long ago.

    \b
    Examples:
      kubectl elasticquota history -A
      kubectl elasticquota history -n team-a --since 30m
      kubectl elasticquota history -A -o csv
    """
    import time

    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.reclaim_history import EventHistory, StatusHistory, history_of
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import encoded

    session = CommandSession.of(ctx)
    diagnostics = Diagnostics()
    now = time.time()
    start = now - seconds_of(since)
    sources = (EventHistory(session.client, diagnostics), StatusHistory(session.client, diagnostics))
    found = history_of(sources, session.scope, start)
    if output in ("json", "yaml"):
        sys.stdout.write(encoded({"history": [_entry(record) for record in found]}, output))
    elif output == "csv":
        _print_csv(found, show_headers=not no_headers)
    elif found:
        _print_table(found, now, namespaces=session.all_namespaces, show_headers=not no_headers)
    else:
        where = "" if session.all_namespaces else f" in {session.namespace} namespace"
        diagnostics.note(f"Nothing was taken back{where} in the last {since}, as far as Events are kept.")
    if diagnostics.failed:
        raise AlreadyReported


def seconds_of(text: str) -> float:
    """Seconds of --since. Raises click.BadParameter unless it is a positive duration."""
    from scheduler_core.model.duration import parse_duration

    seconds = parse_duration(text) if len(text) <= 32 else None
    if seconds is None or seconds <= 0:
        raise click.BadParameter(f"{text!r} is not a time like 30m or 24h", param_hint="--since")
    return seconds


def _print_table(found: Sequence[Reclaim], now: float, *, namespaces: bool, show_headers: bool) -> None:
    from kubectl_plugin.render.quantity_text import human
    from scheduler_core.printing.age import human_duration

    headers = ["AGE", "NAMESPACE", "RESOURCES", "PODS", "BY", "FOR QUOTA"]
    rows = []
    for record in found:
        amounts = ",".join(f"{name}={human(name, value)}" for name, value in sorted(record.amounts.items()))
        texts = [
            human_duration(now - record.time),
            record.namespace,
            amounts or UNKNOWN,
            pods_text(record),
            record.by,
            record.by_quota or ABSENT,
        ]
        rows.append([Cell(text) for text in texts])
    if not namespaces:
        headers.pop(1)
        rows = [[row[0], *row[2:]] for row in rows]
    for line in TablePrinter(headers, show_headers=show_headers).lines(rows):
        print(line)


def pods_text(record: Reclaim) -> str:
    """`a,b,c and 2 more`; only their number where no name is known."""
    if not record.pods:
        return f"({record.count})"
    more = record.count - len(record.pods[:MOST_PODS])
    return ",".join(record.pods[:MOST_PODS]) + (f" and {more} more" if more else "")


def _entry(record: Reclaim) -> dict[str, Any]:
    from scheduler_core.model.resources import to_strings
    from scheduler_core.model.timestamps import format_time

    return {
        "time": format_time(record.time),
        "kind": record.kind,
        "namespace": record.namespace,
        "quota": record.quota,
        "resources": to_strings(record.amounts),
        "pods": list(record.pods),
        "count": record.count,
        "by": record.by,
        "byQuota": record.by_quota,
    }


def _print_csv(found: Sequence[Reclaim], *, show_headers: bool) -> None:
    import csv

    from scheduler_core.model.printable import visible

    writer = csv.writer(sys.stdout, lineterminator="\n")
    if show_headers:
        writer.writerow(_FIELDS)
    for record in found:
        entry = _entry(record)
        amounts = " ".join(f"{name}={value}" for name, value in entry["resources"].items())
        entry |= {"resources": amounts, "pods": " ".join(record.pods)}
        writer.writerow([visible(str(entry[field])) for field in _FIELDS])
