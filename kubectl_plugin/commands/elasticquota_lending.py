"""`kubectl elasticquota lending`: flags, help, and the loans of the cluster as table, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import Cell, TablePrinter

if TYPE_CHECKING:
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.reading import ListClient
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.inspection.loans import LoanRow
    from scheduler_core.quota.ledger import QuotaLedger
    from scheduler_core.quota.lending import Lending

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
@click.option("-w", "--watch", is_flag=True, help="After the list, print each loan that changes or ends.")
@click.option("--sort-by", default="", metavar="PATH", help="Sort the table by a field: .amount, .lender.")
@global_flags
@click.pass_context
def lending(ctx: click.Context, /, output: str, no_headers: bool, watch: bool, sort_by: str) -> None:
    """Show who borrows from whom: every loan per resource, and the amount that its lender can take back now.

    A quota borrows what it uses above its min. Quotas with unused min lend it, in proportion to the unused
    amounts. With a namespace, only its own loans are shown.

    \b
    Examples:
      kubectl elasticquota lending -A
      kubectl elasticquota lending -A --sort-by .amount
      kubectl elasticquota lending -n team-a -o json
      kubectl elasticquota lending -w
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.inspection.loans import balances
    from kubectl_plugin.render.structured import encoded

    if output != "table" and (watch or sort_by):
        raise click.UsageError(f"-o {output} cannot be used with {'--watch' if watch else '--sort-by'}.")
    if watch and sort_by:
        raise click.UsageError("--sort-by cannot be used with --watch.")
    session = CommandSession.of(ctx)
    diagnostics = Diagnostics()
    if watch:
        _watch(session, diagnostics, show_headers=not no_headers)
        return
    ledger = gather(session.client, diagnostics)
    found = balances(ledger, session.scope)
    if output != "table":
        sys.stdout.write(encoded(document(found, shares_of(ledger)), output))
    elif found:
        most = MOST_LENDERS if session.all_namespaces else None
        _print_table(found, most, sort_by, show_headers=not no_headers)
    else:
        where = "" if session.all_namespaces else f" in {session.namespace} namespace"
        diagnostics.note(f"Nothing is borrowed or lent{where}.")
    if diagnostics.failed:
        raise AlreadyReported


def gather(client: ListClient, diagnostics: Diagnostics) -> QuotaLedger:
    """The quota ledger of the whole cluster: loans cross namespaces. Raises the ApiError tree."""
    from kubectl_plugin.cluster.cluster_view import ClusterView
    from kubectl_plugin.cluster.group_tree import quota_groups
    from kubectl_plugin.cluster.node_flavors import node_flavors
    from kubectl_plugin.cluster.pods import pod_parser
    from kubectl_plugin.cluster.reading import UNFINISHED, ListScope, list_raw, parsed
    from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
    from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota

    view = ClusterView()
    for group in quota_groups(client, diagnostics):
        view.ledger.put_group(group)
    quotas = list_raw(client, ELASTIC_QUOTAS, ListScope())
    for quota in parsed(quotas, parse_elastic_quota, diagnostics.unreadable):
        view.put_quota(quota)
    view.node_flavors = node_flavors(client, view.limits(), diagnostics.note) or {}
    if quotas:
        pods = list_raw(client, PODS, ListScope(fields=UNFINISHED))
        for pod in parsed(pods, pod_parser(client), diagnostics.unreadable):
            view.put_pod(pod)
    return view.ledger


def shares_of(ledger: QuotaLedger) -> dict[str, dict[str, Fraction]]:
    """The share of each quota that borrows in each resource, by namespace."""
    from scheduler_core.quota.entitled import shares_by_resource
    from scheduler_core.quota.fair_shares import scale_of

    scale = scale_of(ledger)
    return {quota.namespace: shares_by_resource(ledger, scale, quota) for quota in ledger.quotas()}


def document(found: Iterable[Lending], shares: Mapping[str, Mapping[str, Fraction]]) -> dict[str, Any]:
    """All loans for JSON and YAML, with exact quantities; `shares` by namespace and resource."""
    return {"lending": [_entry(lending, shares) for lending in found]}


def _entry(lending: Lending, shares: Mapping[str, Mapping[str, Fraction]]) -> dict[str, Any]:
    from scheduler_core.model.quantity import format_resource
    from scheduler_core.printing.counts import number_text

    def text(value: int) -> str:
        return format_resource(lending.resource, value)

    reclaimable = lending.reclaimable
    return {
        "resource": lending.resource,
        "borrowed": [
            {
                "namespace": name,
                "amount": text(amount),
                "reclaimable": text(reclaimable.get(name, 0)),
                "share": number_text(shares.get(name, {}).get(lending.resource, Fraction())),
            }
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


def _print_table(found: Sequence[Lending], most: int | None, sort_by: str, *, show_headers: bool) -> None:
    from kubectl_plugin.inspection.loans import loan_rows
    from kubectl_plugin.render.jsonpath_template import sort_order

    loans = [row for lending in found for row in loan_rows(lending, most)]
    if sort_by:
        loans = [loans[i] for i in sort_order([row.document() for row in loans], sort_by)]
    for line in TablePrinter(HEADERS, show_headers=show_headers).lines([_cells(row) for row in loans]):
        print(line)


def _cells(row: LoanRow) -> list[Cell]:
    from kubectl_plugin.render.quantity_text import human

    amounts = [human(row.resource, value) for value in (row.amount, row.reclaimable)]
    return [Cell(text) for text in (*row.place, *amounts)]


def _watch(session: CommandSession, diagnostics: Diagnostics, *, show_headers: bool) -> None:
    """Print all loans, then each loan that changes or ends, without end."""
    from kubectl_plugin.inspection.loan_watch import changed_loans

    printer = TablePrinter(HEADERS, show_headers=show_headers)
    for batch in changed_loans(session.client, session.scope, diagnostics.note):
        for line in printer.lines([_cells(row) for row in batch]):
            print(line, flush=True)
