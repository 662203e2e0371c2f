"""Fair moves: what a quota that borrows less may take from one that borrows more (docs/quota.md#the-algebra).

A fair move concerns work that would borrow, and that the sum of min refuses. Its *contested* resources are
those that the work asks for and of which the sum of min has too little left. A set of victims is fair if for
the quota v of each victim, without the set, and the quota p of the work, with it:

(a) v keeps its min of every resource of which it used at least its min before;
(b) v borrows less of a contested resource than before;
(c) in each contested resource by itself, the share of p is at most that of v;
(d) the share of p as a whole is at most that of v: the largest share over all resources counts first, then
    the next one, and so on.

Shares are divided by weights. A quota of weight 0 takes nothing, and gives all that it borrows: (c) and (d)
hold for it whatever it borrows. By (d) fair moves come to an end. (a) and (c) are floors: the least that v
must keep of each resource (`floors`). For (d) one resource is enough; which one is a guess, so that the floor
may refuse a fair set, and only `is_fair` proves one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.aggregate import sum_limits
from scheduler_core.quota.fair_shares import staying
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import lendable, may_reclaim


class FairMove(msgspec.Struct, frozen=True):
    """The claim of a quota on what others borrow.

    `short`: of each contested resource what is lacking, always above 0. `borrows`: what the quota borrows
    with the work, by resource, without zeros. `totals`: the sums of min, the denominators of all shares.
    `largest`: the share of the quota as a whole, with the work.
    """

    quota: ElasticQuota
    short: dict[str, int]
    borrows: dict[str, int]
    totals: dict[str, int]
    largest: Fraction

    @property
    def weight(self) -> Fraction:
        """The weight of the quota, never 0."""
        return self.quota.sharing.weight


def fair_move(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    charge: ResourceList,
    nominated: ResourceList,
    nominated_total: ResourceList,
) -> FairMove | None:
    """The fair move that work of this charge needs, or None if it needs none or none can help.

    `nominated` and `nominated_total` are the use of nominated pods that go before it, as in `policy.admit`.
    None for work that may reclaim (then the min decides), that the max refuses, or that the sum of min admits
    once the pods on their way out are gone, that borrows nothing of what shares count, and for quotas of
    weight 0.
    """
    if not (ledger.borrowing.fair_moves and quota.sharing.weight):
        return None
    if may_reclaim(ledger, quota, charge, nominated):
        return None
    used = staying(ledger, quota)
    asked = {name: value for name, value in charge.items() if value > 0}
    own = {name: used.get(name, 0) + nominated.get(name, 0) for name in {*used, *nominated}}
    if any(own.get(name, 0) + value > quota.max.get(name, math.inf) for name, value in asked.items()):
        return None
    limits = sum_limits(ledger, quota, charge, nominated)
    total = ledger.in_use(after_leaving=True)
    short = {}
    for name in sorted(asked):
        if name in limits:
            lacks = total.get(name, 0) + nominated_total.get(name, 0) + asked[name] - limits[name]
            if lacks > 0:
                short[name] = lacks
    if not short or not all(limits[name] for name in short):
        return None
    borrows = {}
    for name in ledger.total_min:
        over = own.get(name, 0) + asked.get(name, 0) - quota.min.get(name, 0)
        if over > 0:
            borrows[name] = over
    if not any(asked.get(name) for name in borrows):
        return None
    totals = dict(ledger.total_min)
    largest = max(_shares(borrows, totals, quota.sharing.weight), default=Fraction(0))
    return FairMove(quota, short, borrows, totals, largest)


def floors(ledger: QuotaLedger, move: FairMove, victim: ElasticQuota) -> dict[str, int] | None:
    """The least use that a quota must keep of each resource, by (a), (c) and (d); None if it gives nothing.

    It gives nothing if it does not exceed the floor of any contested resource, or is below another floor.
    """
    used, low, weight = lendable(ledger, victim), victim.min, victim.sharing.weight
    found = {}
    for name in move.short:
        keeps = found[name] = low.get(name, 0) + _scaled(move.borrows.get(name, 0), weight, move.weight)
        if used.get(name, 0) < keeps:
            return None
    if all(used.get(name, 0) == keeps for name, keeps in found.items()):
        return None
    for name, least in low.items():
        if name not in found and used.get(name, 0) >= least > 0:
            found[name] = least
    if not weight:
        return found
    # By (d): what is left to it of the resource in which it will borrow most, if it gives what is lacking.
    name = max(
        (name for name, total in move.totals.items() if total > 0),
        key=lambda name: Fraction(
            used.get(name, 0) - low.get(name, 0) - move.short.get(name, 0), move.totals[name]
        ),
    )
    keeps = low.get(name, 0) + _scaled(1, weight * move.totals[name] * move.largest, Fraction(1))
    found[name] = max(keeps, found.get(name, 0))
    return found if used.get(name, 0) >= found[name] else None


def gives_any(ledger: QuotaLedger, move: FairMove) -> bool:
    """Whether any quota exceeds what it keeps."""
    own = move.quota.namespace
    return any(
        quota.namespace != own and floors(ledger, move, quota) is not None for quota in ledger.quotas()
    )


def _scaled(amount: int, weight: Fraction, by: Fraction) -> int:
    """An amount times `weight` divided by `by`, rounded up."""
    above, below = amount * weight.numerator * by.denominator, weight.denominator * by.numerator
    return -(-above // below)


def is_fair(ledger: QuotaLedger, move: FairMove, taken: Mapping[str, ResourceList]) -> bool:
    """Whether a set of victims is fair; `taken` is what they use, by namespace. The proof of (a) to (d)."""
    own = sorted(_shares(move.borrows, move.totals, move.weight), reverse=True)
    for namespace, amounts in taken.items():
        quota = ledger.quota_of(namespace)
        if quota is None or quota.namespace == move.quota.namespace:
            return False
        used = lendable(ledger, quota)
        left = {name: used.get(name, 0) - amounts.get(name, 0) for name in {*used, *move.totals}}
        for name, low in quota.min.items():
            if used.get(name, 0) >= low > left.get(name, 0):
                return False
        borrowed = {name: max(0, left[name] - quota.min.get(name, 0)) for name in move.totals}
        if not any(
            amounts.get(name, 0) > 0 and used.get(name, 0) > quota.min.get(name, 0) for name in move.short
        ):
            return False
        weight = quota.sharing.weight
        if not weight:
            continue
        if any(borrowed[name] * move.weight < move.borrows.get(name, 0) * weight for name in move.short):
            return False
        if own > sorted(_shares(borrowed, move.totals, weight), reverse=True):
            return False
    return True


def _shares(borrows: Mapping[str, int], totals: Mapping[str, int], weight: Fraction) -> list[Fraction]:
    """The shares of a quota in all resources, with zeros."""
    return [Fraction(borrows.get(name, 0), total) / weight for name, total in totals.items() if total > 0]


def no_fair_move(ledger: QuotaLedger, move: FairMove) -> str:
    """Why nobody can be taken: both shares of the first contested resource, in words."""
    name = next(iter(move.short))
    total = move.totals[name]
    richest = max(
        (quota for quota in ledger.quotas() if quota.namespace != move.quota.namespace),
        key=lambda quota: (_over(ledger, quota, name) / (quota.sharing.weight or Fraction(1)), quota.key),
        default=None,
    )
    own = _part(name, move.borrows.get(name, 0), total, move.quota)
    head = f"no fair move: with the work {own} of {name}"
    if richest is None or not _over(ledger, richest, name):
        return f"{head}, and no other quota borrows any"
    over = _over(ledger, richest, name)
    gives = min(over, move.short[name])
    left = f"{format_resource(name, over - gives)}/{format_resource(name, total)}"
    return (
        f"{head}, and {_part(name, over, total, richest, verb='borrows')} and would borrow {left} "
        f"after giving {format_resource(name, gives)}"
    )


def _part(name: str, amount: int, total: int, quota: ElasticQuota, *, verb: str = "would borrow") -> str:
    """`ElasticQuota p1/quota (weight 2) borrows 4/8`."""
    weight = quota.sharing.weight
    given = "" if weight == 1 else f" (weight {weight})"
    return (
        f"ElasticQuota {quota.key}{given} {verb} "
        f"{format_resource(name, amount)}/{format_resource(name, total)}"
    )


def _over(ledger: QuotaLedger, quota: ElasticQuota, name: str) -> int:
    """What a quota borrows of a resource by pods that have a node and stay."""
    return max(0, lendable(ledger, quota).get(name, 0) - quota.min.get(name, 0))
