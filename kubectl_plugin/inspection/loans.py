"""The loans of a cluster as rows: who borrows which amount of what from whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kubectl_plugin.cluster.quota_rows import resource_order
from scheduler_core.model.quantity import format_resource
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.lending import Lending, Loan, balance, named_resources

# The lender of an amount that nobody lends: all unused min is lent already.
NOBODY: Final = "-"


class LoanRow(msgspec.Struct, frozen=True):
    """One loan, or several small ones of a borrower. Amounts are in the unit of the resource."""

    resource: str
    borrower: str
    lender: str
    amount: int
    reclaimable: int

    @property
    def place(self) -> tuple[str, str, str]:
        """What is lent, to whom and by whom."""
        return self.resource, self.borrower, self.lender

    def document(self) -> dict[str, str]:
        """The fields that --sort-by names, with exact quantities."""
        return {
            "resource": self.resource,
            "borrower": self.borrower,
            "lender": self.lender,
            "amount": format_resource(self.resource, self.amount),
            "reclaimable": format_resource(self.resource, self.reclaimable),
        }


def balances(ledger: QuotaLedger, namespace: str = "") -> list[Lending]:
    """Balance and loans of each borrowed or lent resource, for all namespaces or for one."""
    found = [balance(ledger, name) for name in resource_order(named_resources(ledger))]
    if namespace:
        found = [_narrowed(item, namespace) for item in found]
    return [item for item in found if item.borrowed or item.lent]


def _narrowed(lending: Lending, namespace: str) -> Lending:
    """The balance and the loans of one namespace."""
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


def loan_rows(lending: Lending, most: int | None) -> Iterator[LoanRow]:
    """Rows of one resource: `most` lenders per borrower (None: all), and the sum of the others."""
    name = lending.resource
    for borrower, loans in _by_borrower(lending).items():
        for loan in loans[:most]:
            yield LoanRow(name, borrower, loan.lender, loan.amount, loan.amount)
        rest = [loan.amount for loan in loans[len(loans) if most is None else most :]]
        if rest:
            yield LoanRow(name, borrower, f"({len(rest)} others)", sum(rest), sum(rest))
        unlent = lending.borrowed.get(borrower, 0) - sum(loan.amount for loan in loans)
        if unlent > 0:
            yield LoanRow(name, borrower, NOBODY, unlent, 0)
