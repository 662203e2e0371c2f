"""Lending: who uses what whose min is not used, and what can be taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kubectl_plugin.cluster.quota_rows import resource_order
from kubectl_plugin.commands.elasticquota_lending import document, shares_of
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.drawing.colors import QuotaColors
from kubectl_plugin.console.drawing.flow import NOBODY, OTHERS, LoanStream, flow, kind_of, told
from kubectl_plugin.console.pages.now import FIGURE_KINDS
from kubectl_plugin.console.pages.page import Content, LivePage, PageRequest, Services
from kubectl_plugin.inspection.loans import NOBODY as UNLENT
from kubectl_plugin.inspection.loans import LoanRow, balances, loan_rows
from kubectl_plugin.render.quantity_text import human
from scheduler_core.quota.lending import Lending, Loan

# Rows of the table of one resource.
_MOST: Final = 200
_LENDERS: Final = 10
# Streams that are told to those who cannot see the picture.
_IN_LABEL: Final = 20


class LendingPage(LivePage):
    """Who lends to whom."""

    name = "lending"
    path = "/lending"
    title = "Lending"
    kinds = FIGURE_KINDS

    def content(self, services: Services, request: PageRequest) -> Content:
        """The loans of the cluster; for those who see a part of it, with the others as one."""
        cluster = services.watch.cluster
        if not services.watch.whole_use:
            needed = ("elasticquotas", "pods")
            missing = [name for name in needed if not services.watch.lists(name, everywhere=True)]
            need = "loans cross namespaces: they need the ElasticQuotas and pods of all namespaces"
            lacks = (f"{need}, and you may not list all {' and '.join(missing)}",)
            return Content(lambda: {"lending": None}, {"resources": []}, lacks)
        with cluster.lock:
            found = balances(cluster.view.ledger)
            shares = shares_of(cluster.view.ledger)
        found = [item for item in (_narrowed(item, request.viewer) for item in found) if item is not None]
        colors = request.colors(services)
        order = resource_order(item.resource for item in found)
        values = [_resource(item, colors) for name in order for item in found if item.resource == name]
        return Content(lambda: document(found, shares), {"resources": values})


def _narrowed(lending: Lending, viewer: Viewer) -> Lending | None:
    """The loans that the viewer takes part in; who else takes part has no name. None if there are none."""
    if viewer.namespaces is None:
        return lending
    amounts: dict[tuple[str, str], int] = {}
    for loan in lending.loans:
        pair = tuple(name if viewer.sees(name) else OTHERS for name in (loan.lender, loan.borrower))
        if pair != (OTHERS, OTHERS):
            amounts[pair[0], pair[1]] = amounts.get((pair[0], pair[1]), 0) + loan.amount
    narrowed = Lending(
        lending.resource,
        {name: amount for name, amount in lending.borrowed.items() if viewer.sees(name)},
        {name: amount for name, amount in lending.lent.items() if viewer.sees(name)},
        tuple(Loan(lending.resource, *pair, amount) for pair, amount in sorted(amounts.items())),
    )
    return narrowed if narrowed.borrowed or narrowed.lent else None


def _resource(lending: Lending, colors: QuotaColors) -> dict[str, Any]:
    name = lending.resource

    def text(amount: int) -> str:
        return human(name, amount)

    def named(namespace: str) -> tuple[str, str]:
        return namespace, kind_of(namespace, colors.of)

    rows = list(loan_rows(lending, _LENDERS))
    streams = list(_streams(lending, rows))
    label = f"Loans of {name}: " + "; ".join(told(item, text) for item in streams[:_IN_LABEL])
    return {
        "name": name,
        # Of the loans below: a viewer also sees what others, without names, borrow of their quotas.
        "borrowed": text(sum(row.amount for row in rows)),
        "reclaimable": text(sum(row.reclaimable for row in rows)),
        "flow": flow(streams, text, colors.of, label) if streams else None,
        "rows": [
            (named(row.borrower), named(_lender(row)), text(row.amount), text(row.reclaimable))
            for row in rows[:_MOST]
        ],
        "unlent": NOBODY,
        "more": max(0, len(rows) - _MOST),
    }


def _streams(lending: Lending, rows: Sequence[LoanRow]) -> Iterator[LoanStream]:
    """All loans, and what is used without one: the blocks of borrowers are as large as what they borrow."""
    for loan in lending.loans:
        yield LoanStream(loan.lender, loan.borrower, loan.amount)
    for row in rows:
        if row.lender == UNLENT:
            yield LoanStream(NOBODY, row.borrower, row.amount)


def _lender(row: LoanRow) -> str:
    return NOBODY if row.lender == UNLENT else row.lender
