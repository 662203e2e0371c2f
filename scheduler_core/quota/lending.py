"""Computes lending between quotas: borrowers, lenders and amounts.

The rule, per resource: a quota borrows what it uses above its min. The sum of all that is borrowed is lent by
the quotas with unused min, pro rata to what they leave unused; integers by the largest remainder, ties by
namespace. Use beyond all unused min (a quota was lowered below its use, or the cluster is larger than the sum
of min) has no lender.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import borrowed as borrowed_by


class Loan(msgspec.Struct, frozen=True):
    """An amount of one resource that `lender` leaves unused and `borrower` uses (namespaces)."""

    resource: str
    lender: str
    borrower: str
    amount: int


class Lending(msgspec.Struct, frozen=True):
    """Balance of one resource: borrowed and lent per namespace (zeros absent), and the loans between them."""

    resource: str
    borrowed: dict[str, int]
    lent: dict[str, int]
    loans: tuple[Loan, ...]

    @property
    def reclaimable(self) -> dict[str, int]:
        """The amount that lenders could take back now, per borrower; use without a lender is not included."""
        out: dict[str, int] = {}
        for loan in self.loans:
            out[loan.borrower] = out.get(loan.borrower, 0) + loan.amount
        return out


class Shares(msgspec.Struct, frozen=True):
    """The amounts of one resource that each namespace borrows and lends; zeros are absent."""

    borrowed: dict[str, int]
    lent: dict[str, int]


def apportion(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Split an amount pro rata to weights, exactly: the parts sum to `amount` (largest remainder method).

    Never gives a part more than its weight as long as `amount <= sum(weights)`. Empty for no weight at all.
    """
    total = sum(weights.values())
    if total <= 0 or amount <= 0:
        return {}
    parts = {name: amount * weight // total for name, weight in weights.items()}
    rest = amount - sum(parts.values())
    by_remainder = sorted(weights, key=lambda name: (-(amount * weights[name] % total), name))
    for name in by_remainder[:rest]:
        parts[name] += 1
    return {name: part for name, part in parts.items() if part}


def shares(ledger: QuotaLedger, resources: Iterable[str]) -> dict[str, Shares]:
    """The amounts borrowed and lent of each resource, in one pass over the binding quotas."""
    borrowed: dict[str, dict[str, int]] = {name: {} for name in resources}
    unused: dict[str, dict[str, int]] = {name: {} for name in borrowed}
    for quota in ledger.quotas():
        for name, over in borrowed_by(ledger, quota).items():
            if name in borrowed:
                borrowed[name][quota.namespace] = over
        used = ledger.used(quota.namespace)
        for name, guaranteed in quota.min.items():
            left = guaranteed - used.get(name, 0)
            if left > 0 and name in unused:
                unused[name][quota.namespace] = left
    return {
        name: Shares(over, apportion(min(sum(over.values()), sum(unused[name].values())), unused[name]))
        for name, over in borrowed.items()
    }


def balance(ledger: QuotaLedger, resource: str) -> Lending:
    """The amounts borrowed and lent of one resource, with the loans between namespaces."""
    return with_loans(resource, shares(ledger, [resource])[resource])


def with_loans(resource: str, found: Shares) -> Lending:
    """The amounts of one resource, with the loans between namespaces that follow from them."""
    left = dict(found.borrowed)
    loans: list[Loan] = []
    for lender in sorted(found.lent):
        parts = apportion(found.lent[lender], {name: left[name] for name in sorted(left) if left[name]})
        for borrower, amount in parts.items():
            left[borrower] -= amount
            loans.append(Loan(resource, lender, borrower, amount))
    return Lending(resource, found.borrowed, found.lent, tuple(loans))


def named_resources(ledger: QuotaLedger) -> list[str]:
    """Every resource that a binding quota names in min or max, sorted."""
    return sorted({name for quota in ledger.quotas() for name in (*quota.min, *quota.max)})
