"""`kubectl elasticquota lending`: flags, help, and the loans of the cluster as table, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import ABSENT, Cell, TablePrinter

if TYPE_CHECKING:
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.reading import ListClient
    from scheduler_core.quota.ledger import QuotaLedger
    from scheduler_core.quota.lending import Lending, Loan

HEADERS: Final = ("RESOURCE", "BORROWER", "LENDER", "AMOUNT", "RECLAIMABLE")

# Loans per borrower in a table of the whole cluster, which can have 250,000 loans among 1,000 quotas.
MOST_LENDERS: Final = 10


@click.command(name="lending")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="Output format.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@global_flags
@click.pass_context
def lending(ctx: click.Context, /, output: str, no_headers: bool) -> None:
    """Show who borrows from whom: every loan per resource, and the amount that its lender can take back now.

    A quota borrows what it uses above its min. Quotas with unused min lend it, in proportion to the unused
    amounts. With a namespace, only its own loans are shown.

    \b
    Examples:
      kubectl elasticquota lending -A
      kubectl elasticquota lending -n team-a -o json
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import encoded

    session = CommandSession.of(ctx)
    diagnostics = Diagnostics()
    found = balances(gather(session.client, diagnostics), session.scope)
    if output != "table":
        sys.stdout.write(encoded(document(found), output))
    elif found:
        _print_table(found, MOST_LENDERS if session.all_namespaces else None, show_headers=not no_headers)
    else:
        where = "" if session.all_namespaces else f" in {session.namespace} namespace"
        diagnostics.note(f"Nothing is borrowed or lent{where}.")
    if diagnostics.failed:
        raise AlreadyReported


def gather(client: ListClient, diagnostics: Diagnostics) -> QuotaLedger:
    """The quota ledger of the whole cluster: loans cross namespaces. Raises the ApiError tree."""
    from kubectl_plugin.cluster.cluster_view import ClusterView
    from kubectl_plugin.cluster.reading import UNFINISHED, ListScope, list_raw, parsed
    from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
    from scheduler_core.model.pods.pod import parse_pod
    from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota

    view = ClusterView()
    quotas = list_raw(client, ELASTIC_QUOTAS, ListScope())
    for quota in parsed(quotas, parse_elastic_quota, diagnostics.unreadable):
        view.put_quota(quota)
    if quotas:
        for pod in parsed(
            list_raw(client, PODS, ListScope(fields=UNFINISHED)), parse_pod, diagnostics.unreadable
        ):
            view.put_pod(pod)
    return view.ledger


def balances(ledger: QuotaLedger, namespace: str = "") -> list[Lending]:
    """Balance and loans of each borrowed or lent resource, for all namespaces or for one."""
    from kubectl_plugin.cluster.quota_rows import resource_order
    from scheduler_core.quota.lending import balance, named_resources

    found = [balance(ledger, name) for name in resource_order(named_resources(ledger))]
    if namespace:
        found = [_narrowed(item, namespace) for item in found]
    return [item for item in found if item.borrowed or item.lent]


def _narrowed(lending: Lending, namespace: str) -> Lending:
    """The balance and the loans of one namespace."""
    from scheduler_core.quota.lending import Lending

    return Lending(
        lending.resource,
        {name: amount for name, amount in lending.borrowed.items() if name == namespace},
        {name: amount for name, amount in lending.lent.items() if name == namespace},
        tuple(loan for loan in lending.loans if namespace in (loan.borrower, loan.lender)),
    )


def _by_borrower(lending: Lending) -> dict[str, list[Loan]]:
    """The loans of each borrower, largest first; possibly none."""
    found: dict[str, list[Loan]] = {name: [] for name in lending.borrowed}
    for loan in lending.loans:
        found.setdefault(loan.borrower, []).append(loan)
    return {name: sorted(found[name], key=lambda loan: (-loan.amount, loan.lender)) for name in sorted(found)}


def rows(lending: Lending, most: int | None) -> Iterator[list[Cell]]:
    """Table rows of one resource: `most` lenders per borrower (None: all), and the sum of the others."""

    from kubectl_plugin.render.quantity_text import human

    def row(borrower: str, lender: str, amount: int, reclaimable: int) -> list[Cell]:
        amounts = [Cell(human(lending.resource, value)) for value in (amount, reclaimable)]
        return [Cell(lending.resource), Cell(borrower), Cell(lender), *amounts]

    for borrower, loans in _by_borrower(lending).items():
        for loan in loans[:most]:
            yield row(borrower, loan.lender, loan.amount, loan.amount)
        rest = [loan.amount for loan in loans[len(loans) if most is None else most :]]
        if rest:
            yield row(borrower, f"({len(rest)} others)", sum(rest), sum(rest))
        unlent = lending.borrowed.get(borrower, 0) - sum(loan.amount for loan in loans)
        if unlent > 0:
            yield row(borrower, ABSENT, unlent, 0)


def document(found: Iterable[Lending]) -> dict[str, Any]:
    """All loans for JSON and YAML, with exact quantities."""
    return {"lending": [_entry(lending) for lending in found]}


def _entry(lending: Lending) -> dict[str, Any]:
    from scheduler_core.model.quantity import format_resource

    def text(value: int) -> str:
        return format_resource(lending.resource, value)

    reclaimable = lending.reclaimable
    return {
        "resource": lending.resource,
        "borrowed": [
            {"namespace": name, "amount": text(amount), "reclaimable": text(reclaimable.get(name, 0))}
            for name, amount in sorted(lending.borrowed.items())
        ],
        "lent": [
            {"namespace": name, "amount": text(amount)} for name, amount in sorted(lending.lent.items())
        ],
        "loans": [
            {"borrower": loan.borrower, "lender": loan.lender, "amount": text(loan.amount)}
            for loan in lending.loans
        ],
    }


def _print_table(found: Sequence[Lending], most: int | None, *, show_headers: bool) -> None:
    printer = TablePrinter(HEADERS, show_headers=show_headers)
    for line in printer.lines([row for lending in found for row in rows(lending, most)]):
        print(line)
