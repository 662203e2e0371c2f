"""`kubectl elasticquota history`: flags, help, and what was taken back. Use over time: `history_showback`."""

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
    from scheduler_core.answers.showback import By

# Number of pods that a row of the table names.
MOST_PODS: Final = 3
# What a formula begins with in a spreadsheet.
_FORMULAS: Final = ("=", "+", "-", "@")
_FIELDS: Final = ("time", "kind", "namespace", "quota", "resources", "pods", "count", "by", "byQuota")


@click.command(name="history")
@click.option(
    "--since",
    default="",
    metavar="TIME",
    help="How far to look back, as 30m, 24h, 7d; default: 24h, with --by 7d. Events are kept for an hour.",
)
@click.option(
    "--by",
    type=click.Choice(["team", "day"]),
    help="Show use over time: a row per team, or per day and team.",
)
@click.option("--prices", default="", metavar="FILE", help="With --by: prices per resource and hour, YAML.")
@click.option(
    "--history-namespace",
    default="",
    metavar="NAME",
    help="With --by: the scheduler's namespace; default: as in its configuration.",
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
def history(
    ctx: click.Context, /, since: str, by: By | None, output: str, no_headers: bool, **flags: Any
) -> None:
    """Show what was taken from a namespace: when, which pods, by whom, and for whose quota; newest last.

    It reads Events, which the API server deletes after an hour by default, and status.lastReclaim of the
    ElasticQuotas, which has the last reclaim of each quota however long ago.

    With --by it shows instead what was used, borrowed, lent and waited for, in resource-hours: core-hours,
    GiB-hours, GPU-hours. The scheduler counts them. COST is USED at the prices of the annotation
    muster.dev/price of the quota, or of --prices.

    \b
    Examples:
      kubectl elasticquota history -A
      kubectl elasticquota history -n team-a --since 30m
      kubectl elasticquota history -A -o csv
      kubectl elasticquota history -A --by team --since 7d
      kubectl elasticquota history -A --by day --prices prices.yaml -o csv
    """
    if by is not None:
        from kubectl_plugin.answers.history_showback import print_showback

        print_showback(ctx, by, seconds_of(since or "7d"), output, show_headers=not no_headers, **flags)
    elif any(flags.values()):
        raise click.UsageError("--prices and --history-namespace need --by.")
    else:
        print_reclaims(ctx, since or "24h", output, show_headers=not no_headers)


def print_reclaims(ctx: click.Context, since: str, output: str, *, show_headers: bool) -> None:
    """Print what was taken back. Raises the ApiError tree."""
    import time

    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.quota_history import recorded_days
    from kubectl_plugin.cluster.reclaim_history import (
        EventHistory,
        LeaderHistory,
        StatusHistory,
        history_of,
    )
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import encoded

    session = CommandSession.of(ctx)
    diagnostics = Diagnostics()
    now = time.time()
    start = now - seconds_of(since)
    client = session.client
    sources = (
        EventHistory(client, diagnostics),
        StatusHistory(client, diagnostics),
        LeaderHistory(recorded_days(client, now, seconds_of(since))),
    )
    found = history_of(sources, session.scope, start)
    if output in ("json", "yaml"):
        sys.stdout.write(encoded(reclaims_document(found), output))
    elif output == "csv":
        _print_csv(found, show_headers=show_headers)
    elif found:
        _print_table(found, now, namespaces=session.all_namespaces, show_headers=show_headers)
    else:
        where = "" if session.all_namespaces else f" in {session.namespace} namespace"
        diagnostics.note(f"Nothing was taken back{where} in the last {since}, as far as Events are kept.")
    if diagnostics.failed:
        raise AlreadyReported


def reclaims_document(found: Sequence[Reclaim]) -> dict[str, Any]:
    """The records for JSON and YAML, with exact quantities."""
    return {"history": [_entry(record) for record in found]}


def seconds_of(text: str) -> float:
    """Seconds of --since. Raises click.BadParameter unless it is a positive duration; `7d` are days."""
    from scheduler_core.model.duration import parse_duration

    days = text.removesuffix("d")
    if days != text and days.isdecimal() and len(days) < 6:
        seconds: float | None = int(days) * 86_400.0
    else:
        seconds = parse_duration(text) if len(text) <= 32 else None
    if seconds is None or seconds <= 0:
        raise click.BadParameter(f"{text!r} is not a time like 30m, 24h or 7d", param_hint="--since")
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

    writer = csv.writer(sys.stdout, lineterminator="\n")
    if show_headers:
        writer.writerow(_FIELDS)
    for record in found:
        entry = _entry(record)
        amounts = " ".join(f"{name}={value}" for name, value in entry["resources"].items())
        entry |= {"resources": amounts, "pods": " ".join(record.pods)}
        writer.writerow([_csv_field(str(entry[field])) for field in _FIELDS])


def _csv_field(text: str) -> str:
    """A text that no spreadsheet takes for a formula: whoever may write Events writes what is in it."""
    from scheduler_core.model.printable import visible

    return f"'{visible(text)}" if text.startswith(_FORMULAS) else visible(text)
