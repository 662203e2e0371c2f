"""The lending ledger: who borrows how much, and from whom.

The rule, per resource: a quota borrows what it uses above its min. The sum of all that is borrowed is lent by
the quotas with unused min, pro rata to what they leave unused; integers by the largest remainder, ties by
namespace. What borrowers use beyond all unused min (quotas that were lowered under their use, or a cluster
larger than the sum of min) is lent by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import relevant


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


def balance(ledger: QuotaLedger, resource: str) -> Lending:
    """Who borrows and lends one resource now, among the quotas that it concerns (`policy.relevant`)."""
    borrowed: dict[str, int] = {}
    unused: dict[str, int] = {}
    for quota in ledger.quotas():
        if resource not in relevant(ledger, quota):
            continue
        over = ledger.used(quota.namespace).get(resource, 0) - quota.min.get(resource, 0)
        if over > 0:
            borrowed[quota.namespace] = over
        elif over < 0:
            unused[quota.namespace] = -over
    lent = apportion(min(sum(borrowed.values()), sum(unused.values())), unused)
    left = dict(borrowed)
    loans: list[Loan] = []
    for lender in sorted(lent):
        parts = apportion(lent[lender], {name: left[name] for name in sorted(left) if left[name]})
        for borrower, amount in parts.items():
            left[borrower] -= amount
            loans.append(Loan(resource, lender, borrower, amount))
    return Lending(resource, borrowed, lent, tuple(loans))


def named_resources(ledger: QuotaLedger) -> list[str]:
    """Every resource that a binding quota names in min or max, sorted."""
    return sorted({name for quota in ledger.quotas() for name in (*quota.min, *quota.max)})
