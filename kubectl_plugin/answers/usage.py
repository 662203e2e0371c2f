"""`kubectl elasticquota usage`: flags, help, and who uses quotas as table, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import ABSENT, UNKNOWN, Cell, TablePrinter

if TYPE_CHECKING:
    from kubectl_plugin.cluster.quota_usage import Usage
    from scheduler_core.answers.usage import By, Lender, UsageRow

# Number of lenders that a row of the table names.
MOST_LENDERS: Final = 3
# Number of pods that a row of the wide table names.
MOST_PODS: Final = 5


@click.command(name="usage")
@click.option(
    "--by",
    type=click.Choice(["pod", "owner", "user", "node"]),
    default="pod",
    help="What a row stands for; default: pod.",
)
@click.option("--borrowed", "only_borrowed", is_flag=True, help="Only what is borrowed.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="Output format.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@global_flags
@click.pass_context
def usage(ctx: click.Context, /, by: By, only_borrowed: bool, output: str, no_headers: bool) -> None:
    """Show who uses a quota, which part of it is borrowed, from whom, and since when.

    A quota borrows what it uses above its min. The pods that the scheduler would take back first carry what
    is borrowed. SINCE rests on the pods that are still there: the quota has borrowed at least since then.

    \b
    Examples:
      kubectl elasticquota usage -n team-a
      kubectl elasticquota usage -A --borrowed --by owner
      kubectl elasticquota usage --by user -o json
    """
    import time

    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.quota_usage import read_usage
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import encoded
    from scheduler_core.answers.usage import usage_rows

    session = CommandSession.of(ctx)
    diagnostics = Diagnostics()
    owners = by == "owner" or output != "table"
    found = read_usage(session.client, session.scope, diagnostics, owners=owners)
    rows = [row for row in usage_rows(found.uses, found.pods, by) if row.borrowed or not only_borrowed]
    if output in ("json", "yaml"):
        sys.stdout.write(encoded(document(found, rows, by), output))
    elif rows:
        wide = output == "wide"
        headers = _headers(by, namespaces=session.all_namespaces, wide=wide)
        printer = TablePrinter(headers, show_headers=not no_headers)
        cells = [_cells(row, found, by, time.time(), wide=wide) for row in rows]
        for line in printer.lines(cells if session.all_namespaces else [row[1:] for row in cells]):
            print(line)
    else:
        where = "" if session.all_namespaces else f" in {session.namespace} namespace"
        none = f"No elasticquotas found{where}." if not found.uses else ""
        diagnostics.note(none or f"Nothing is {'borrowed' if only_borrowed else 'used'}{where}.")
    if diagnostics.failed:
        raise AlreadyReported


def _headers(by: By, *, namespaces: bool, wide: bool) -> list[str]:
    more = ["OWNER", "USER", "NODE"] if by == "pod" else ["PODS"]
    return [
        *(["NAMESPACE"] if namespaces else []),
        "RESOURCE",
        by.upper(),
        "USED",
        "BORROWED",
        "LENDERS",
        "SINCE",
        *(more if wide else []),
    ]


def _cells(row: UsageRow, found: Usage, by: By, now: float, *, wide: bool) -> list[Cell]:
    from kubectl_plugin.render.quantity_text import human
    from scheduler_core.printing.age import human_duration

    use = row.use
    since = ABSENT if not row.borrowed else UNKNOWN if row.since is None else human_duration(now - row.since)
    texts = [
        use.namespace,
        use.resource,
        row.name,
        human(use.resource, row.used),
        human(use.resource, row.borrowed),
        _lenders(use.resource, use.lenders) if row.borrowed else ABSENT,
        since,
    ]
    if wide and by == "pod":
        (pod,) = (
            item for item in found.pods if (item.pod.namespace, item.pod.name) == (use.namespace, row.name)
        )
        texts += [pod.owner, pod.user, pod.pod.node_name or ABSENT]
    elif wide:
        more = f" and {len(row.pods) - MOST_PODS} more" if len(row.pods) > MOST_PODS else ""
        texts.append(",".join(row.pods[:MOST_PODS]) + more)
    return [Cell(text) for text in texts]


def _lenders(resource: str, lenders: Sequence[Lender] | None) -> str:
    """`team-b=2,team-c=1`, the largest first; `?` if not known, `-` if nobody lends."""
    from kubectl_plugin.render.quantity_text import human

    if lenders is None:
        return UNKNOWN
    named = ",".join(f"{item.namespace}={human(resource, item.amount)}" for item in lenders[:MOST_LENDERS])
    more = f" and {len(lenders) - MOST_LENDERS} more" if len(lenders) > MOST_LENDERS else ""
    return named + more or ABSENT


def document(found: Usage, rows: Sequence[UsageRow], by: By) -> dict[str, Any]:
    """The quotas, and what uses them, for JSON and YAML, with exact quantities."""
    from scheduler_core.model.quantity import format_resource
    from scheduler_core.model.timestamps import format_time

    def since(value: float | None) -> dict[str, str]:
        return {"borrowedSince": format_time(value)} if value is not None else {}

    quotas = [
        {
            "namespace": use.namespace,
            "quota": use.quota,
            "resource": use.resource,
            "used": format_resource(use.resource, use.used),
            "min": format_resource(use.resource, use.min),
            "borrowed": format_resource(use.resource, use.borrowed),
            "lenders": None
            if use.lenders is None
            else [
                {"namespace": item.namespace, "amount": format_resource(use.resource, item.amount)}
                for item in use.lenders
            ],
            **since(use.since),
        }
        for use in found.uses
    ]
    usage = [
        {
            "namespace": row.use.namespace,
            "resource": row.use.resource,
            by: row.name,
            "used": format_resource(row.use.resource, row.used),
            "borrowed": format_resource(row.use.resource, row.borrowed),
            "pods": list(row.pods),
            **since(row.since),
        }
        for row in rows
    ]
    return {"by": by, "quotas": quotas, "usage": usage}
