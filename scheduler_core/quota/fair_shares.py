"""The weighted share of a quota in what can be borrowed (docs/fair-sharing.md#share).

Per resource r with S_r = sum(min) > 0: a quota borrows max(0, used - min) / S_r. Its share is the largest of
these, divided by its weight. S_r does not move with use, so a share changes only with the use of its own
quota, or when a quota changes. Quotas of weight 0 follow all others; among them the share counts unweighted.

Where flavors have costs, dear ones count more (`flavor_costs`).

Exact: shares are compared as integers over one common denominator (`ShareScale`), without rounding.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from fractions import Fraction
from math import lcm
from typing import Final, NamedTuple

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.flavor_costs import FlavorCosts
from scheduler_core.quota.ledger import QuotaLedger, less

_PLAIN: Final = FlavorCosts({})


class WeightedShare(NamedTuple):
    """A share that sorts: quotas with weight before those without, then the lower share.

    `value` counts in units of the scale that made it, so only shares of one scale compare.
    """

    weightless: bool
    value: int


class ShareScale:
    """One denominator for the shares of all quotas: valid until a quota changes.

    `totals` are the sums of min by resource, `weights` those of all quotas whose shares are compared, `costs`
    those of flavors.
    """

    __slots__ = ("_costs", "_factors", "_size", "_weights")

    def __init__(
        self, totals: Mapping[str, int], weights: Iterable[Fraction], costs: FlavorCosts = _PLAIN
    ) -> None:
        self._costs = costs
        self._factors: dict[str, int] = {}
        size = lcm(*(total for total in totals.values() if total > 0))
        for name, total in totals.items():
            if total > 0:
                self._factors[name] = size // total
        self._weights = lcm(*(weight.numerator for weight in weights if weight))
        self._size = size * self._weights * costs.scale

    def share(
        self, borrowed: Mapping[str, int], weight: Fraction, names: Container[str] | None = None
    ) -> WeightedShare:
        """The weighted share of a quota that borrows these amounts (at least 0), of the resources in `names`.

        `names` None: of all. The weight is one of those of the scale, or 0.
        """
        factors = self._factors
        borrowed = self._costs.weighed(borrowed)
        most = 0
        for name, amount in borrowed.items():
            if amount > 0 and (names is None or name in names):
                factor = factors.get(name)
                if factor is not None:
                    most = max(most, amount * factor)
        if not weight:
            return WeightedShare(True, most * self._weights)
        return WeightedShare(False, most * (self._weights // weight.numerator) * weight.denominator)

    def fraction(self, share: WeightedShare) -> Fraction:
        """The share as a number; that of a quota of weight 0 is not divided."""
        return Fraction(share.value, self._size)


def scale_of(ledger: QuotaLedger) -> ShareScale:
    """The scale for the shares of all binding quotas, and of the groups above them."""
    weights = {quota.sharing.weight for quota in ledger.quotas()}
    weights |= {group.weight for group in ledger.tree.groups.values()}
    return ShareScale(ledger.total_min, weights, ledger.costs)


def borrows(
    ledger: QuotaLedger, quota: ElasticQuota, more: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The amounts that a quota borrows per resource with `more` use; pods on their way out do not count.

    Resources without a sum of min are not borrowed; where flavors have costs, what is used of each of them
    above its min is told as well. Zeros are left out.
    """
    used = staying(ledger, quota)
    found = {}
    for name in ledger.costs.names(ledger.total_min):
        over = used.get(name, 0) - quota.min.get(name, 0)
        if more:
            over += more.get(name, 0)
        if over > 0:
            found[name] = over
    return found


def staying(ledger: QuotaLedger, quota: ElasticQuota) -> ResourceList:
    """The use of a quota without the pods on their way out. Read only."""
    return less(ledger.used(quota.namespace), ledger.leaving(quota.namespace))


def share_of(ledger: QuotaLedger, quota: ElasticQuota, more: Mapping[str, int] | None = None) -> Fraction:
    """The share of a quota as people see it: divided by the weight, unless that is 0."""
    scale = scale_of(ledger)
    return scale.fraction(scale.share(borrows(ledger, quota, more), quota.sharing.weight))
