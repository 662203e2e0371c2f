"""Lending: who uses what whose min is not used, and what can be taken back."""

from __future__ import annotations

from typing import Any, Final

from kubectl_plugin.cluster.quota_rows import resource_order
from kubectl_plugin.commands.elasticquota_lending import document, shares_of
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.drawing.flow import OTHERS, LoanStream, flow
from kubectl_plugin.console.pages.now import FIGURE_KINDS
from kubectl_plugin.console.pages.page import Content, LivePage, PageRequest, Services
from kubectl_plugin.inspection.loans import balances, loan_rows
from kubectl_plugin.render.quantity_text import human
from scheduler_core.quota.lending import Lending, Loan

# Rows of the table of one resource.
_MOST: Final = 200
_LENDERS: Final = 10


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
        order = resource_order(item.resource for item in found)
        values = [_resource(item) for name in order for item in found if item.resource == name]
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


def _resource(lending: Lending) -> dict[str, Any]:
    name = lending.resource

    def text(amount: int) -> str:
        return human(name, amount)

    rows = list(loan_rows(lending, _LENDERS))
    streams = [LoanStream(loan.lender, loan.borrower, loan.amount) for loan in lending.loans]
    label = f"Loans of {name}: " + (
        "; ".join(f"{item.lender} lends {text(item.amount)} to {item.borrower}" for item in streams[:20])
        or "nobody lends"
    )
    return {
        "name": name,
        "borrowed": text(sum(lending.borrowed.values())),
        "reclaimable": text(sum(lending.reclaimable.values())),
        "flow": flow(streams, text, label) if streams else None,
        "rows": [(row.borrower, row.lender, text(row.amount), text(row.reclaimable)) for row in rows[:_MOST]],
        "more": max(0, len(rows) - _MOST),
    }
