"""The lending ledger of a live cluster: what is read, which loans there are, how they are printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import click

from kubectl_plugin.cluster_view import ClusterView
from kubectl_plugin.entry import AlreadyReported
from kubectl_plugin.figures import resource_order
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.quantity_text import human
from kubectl_plugin.quota_columns import ABSENT
from kubectl_plugin.reading import UNFINISHED, Reader, Scope, list_raw, parsed
from kubectl_plugin.session import CommandSession
from kubectl_plugin.structured import to_json, to_yaml
from kubectl_plugin.table import Cell, TablePrinter
from scheduler_core.model.elastic_quota import parse_elastic_quota
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.pod import parse_pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.lending import Lending, Loan, balance, named_resources

HEADERS: Final = ("RESOURCE", "BORROWER", "LENDER", "AMOUNT", "RECLAIMABLE")

# Loans of one borrower that a table of the whole cluster shows; a thousand quotas can have 250,000 of them.
MOST_LENDERS: Final = 10


def gather(client: Reader, complaints: Complaints) -> QuotaLedger:
    """The ledger of the whole cluster, for lending knows no namespaces. Raises the ApiError tree."""
    view = ClusterView()
    quotas = list_raw(client, ELASTIC_QUOTAS, Scope())
    for quota in parsed(quotas, parse_elastic_quota, complaints.about_content):
        view.put_quota(quota)
    if quotas:
        for pod in parsed(
            list_raw(client, PODS, Scope(fields=UNFINISHED)), parse_pod, complaints.about_content
        ):
            view.put_pod(pod)
    return view.ledger


def balances(ledger: QuotaLedger, namespace: str = "") -> list[Lending]:
    """Per resource that somebody borrows: balance and loans, of all namespaces or of one."""
    found = [balance(ledger, name) for name in resource_order(named_resources(ledger))]
    if namespace:
        found = [_narrowed(item, namespace) for item in found]
    return [item for item in found if item.borrowed or item.lent]


def _narrowed(lending: Lending, namespace: str) -> Lending:
    """What concerns one namespace: its own balance, the loans that it takes, the loans that it gives."""
    return Lending(
        lending.resource,
        {name: amount for name, amount in lending.borrowed.items() if name == namespace},
        {name: amount for name, amount in lending.lent.items() if name == namespace},
        tuple(loan for loan in lending.loans if namespace in (loan.borrower, loan.lender)),
    )


def _by_borrower(lending: Lending) -> dict[str, list[Loan]]:
    """The loans of each borrower, the largest first; a borrower that nobody lends to has none."""
    found: dict[str, list[Loan]] = {name: [] for name in lending.borrowed}
    for loan in lending.loans:
        found.setdefault(loan.borrower, []).append(loan)
    return {name: sorted(found[name], key=lambda loan: (-loan.amount, loan.lender)) for name in sorted(found)}


def rows(lending: Lending, most: int | None) -> Iterator[list[Cell]]:
    """Table rows of one resource; `most` lenders per borrower, the others summed up in a row (None: all)."""

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
    """The same, whole, with exact quantities."""
    return {"lending": [_entry(lending) for lending in found]}


def _entry(lending: Lending) -> dict[str, Any]:
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


def run_lending(ctx: click.Context, output: str, *, show_headers: bool) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, AlreadyReported."""
    session = CommandSession.of(ctx)
    complaints = Complaints()
    found = balances(gather(session.client, complaints), session.scope)
    if output != "table":
        write = to_json if output == "json" else to_yaml
        sys.stdout.write(write(document(found)))
    elif found:
        _print_table(found, MOST_LENDERS if session.all_namespaces else None, show_headers=show_headers)
    else:
        where = "" if session.all_namespaces else f" in {session.namespace} namespace"
        complaints.note(f"Nothing is borrowed or lent{where}.")
    if complaints.failed:
        raise AlreadyReported


def _print_table(found: Sequence[Lending], most: int | None, *, show_headers: bool) -> None:
    printer = TablePrinter(HEADERS, show_headers=show_headers)
    for line in printer.lines([row for lending in found for row in rows(lending, most)]):
        print(line)
