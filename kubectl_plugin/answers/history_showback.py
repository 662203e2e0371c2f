"""`kubectl elasticquota history --by`: use over time, and what it costs, as table, JSON, YAML or CSV."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import click

from kubectl_plugin.cli.errors import AlreadyReported, CommandFailed
from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.quota_history import (
    HistoryDenied,
    PriceList,
    price_list,
    prices_for,
    read_days,
    unused_prices,
)
from kubectl_plugin.cluster.reading import ListScope, list_raw, parsed
from kubectl_plugin.cluster.session import CommandSession
from kubectl_plugin.live.configuration import config_of_cluster
from kubectl_plugin.render.structured import encoded
from kubectl_plugin.render.table import ABSENT, Cell, TablePrinter
from scheduler_core.answers.showback import (
    By,
    Period,
    ShowbackRow,
    decimal_text,
    showback,
    showback_document,
)
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.printable import visible
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.printing.age import human_duration

_HOURS: Final = ("used", "borrowed", "lent", "waiting")
_CSV: Final = ("day", "namespace", "resource", *_HOURS, "measuredHours", "price", "cost")
# Decimals of the table; JSON and CSV have six.
_SHORT: Final = 2


def print_showback(
    ctx: click.Context,
    by: By,
    seconds: float,
    output: str,
    *,
    show_headers: bool,
    prices: str,
    history_namespace: str,
) -> None:
    """Print the rows. Raises the ApiError tree, ConfigError, and CommandFailed for a missing right."""
    listed = price_list(prices)
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    client = session.client
    namespace = history_namespace or config_of_cluster(client).config.leader_election.resource_namespace
    period = Period.back(time.time(), seconds)
    try:
        read = read_days(client, period, namespace)
    except HistoryDenied as denied:
        raise CommandFailed(f"{denied} (--history-namespace names another one)") from None
    for error in read.broken:
        diagnostics.unreadable(error)
    scope = session.scope
    raw = list_raw(client, ELASTIC_QUOTAS, ListScope(scope))
    price_of = prices_for(parsed(raw, parse_elastic_quota, diagnostics.unreadable), listed)
    rows = showback(read.days, period, by, price_of, lambda name: scope in ("", name))
    unused = unused_prices(listed, read.days)
    if rows and unused:
        diagnostics.note(f"note: {unused}")
    if output in ("json", "yaml"):
        sys.stdout.write(encoded(showback_document(rows, period, by, listed.currency), output))
    elif output == "csv":
        sys.stdout.write(csv_text(rows, show_headers=show_headers))
    elif rows:
        printer = TablePrinter(_headers(by, rows, listed), show_headers=show_headers)
        for line in printer.lines([_cells(row, by, rows) for row in rows]):
            print(line)
    else:
        diagnostics.note(f"Nothing was measured in this time: there is no history in namespace {namespace}.")
    if diagnostics.failed:
        raise AlreadyReported


def _headers(by: By, rows: Sequence[ShowbackRow], listed: PriceList) -> list[str]:
    cost = f"COST ({listed.currency})" if listed.currency else "COST"
    return [
        *(["DAY"] if by == "day" else []),
        *("NAMESPACE", "RESOURCE", "USED", "BORROWED", "LENT", "WAITING", "MEASURED"),
        *([cost] if _priced(rows) else []),
    ]


def _priced(rows: Sequence[ShowbackRow]) -> bool:
    return any(row.price is not None for row in rows)


def _cells(row: ShowbackRow, by: By, rows: Sequence[ShowbackRow]) -> list[Cell]:
    day = [row.day.isoformat() if row.day is not None else ABSENT] if by == "day" else []
    hours = (decimal_text(row.hours(kind), _SHORT) for kind in _HOURS)
    texts = [*day, row.namespace, row.resource, *hours, human_duration(row.sums.measured)]
    if _priced(rows):
        texts.append(ABSENT if row.cost is None else decimal_text(row.cost, _SHORT))
    return [Cell(visible(text)) for text in texts]


def csv_text(rows: Sequence[ShowbackRow], *, show_headers: bool = True) -> str:
    """The rows as CSV, with six decimals. Names cannot begin with a character that makes a formula."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if show_headers:
        writer.writerow(_CSV)
    for row in rows:
        optional: list[Fraction | None] = [row.price, row.cost]
        writer.writerow(
            [
                row.day.isoformat() if row.day is not None else "",
                visible(row.namespace),
                visible(row.resource),
                *(decimal_text(row.hours(kind)) for kind in _HOURS),
                decimal_text(row.measured),
                *("" if value is None else decimal_text(value) for value in optional),
            ]
        )
    return out.getvalue()
