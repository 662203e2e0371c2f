"""What each quota is entitled to now, and its share by resource: the figures that people see.

The one place where ledger and waiting work become entitlements, for the command line, the metrics and the
explanations of why work waits (docs/fair-sharing.md#entitlement).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.entitlements import Claimant, entitlements
from scheduler_core.quota.fair_shares import ShareScale, borrows, staying
from scheduler_core.quota.ledger import QuotaLedger

_NOTHING: Final[ResourceList] = {}


def entitled(ledger: QuotaLedger, waiting: Mapping[str, ResourceList]) -> dict[str, dict[str, int]]:
    """The entitlement by resource and namespace, for all binding quotas and all resources with a sum of min.

    `waiting` is by namespace what the ledger does not count yet, charges of pods included (`charged`). What
    a quota asks for is this and its use without the pods on their way out, up to its max; the sum of min is
    divided.
    """
    asked: dict[str, list[Claimant]] = {name: [] for name in ledger.total_min}
    for quota in ledger.quotas():
        used, more = staying(ledger, quota), waiting.get(quota.namespace, _NOTHING)
        for name, claimants in asked.items():
            demand = used.get(name, 0) + more.get(name, 0)
            demand = min(demand, quota.max.get(name, demand))
            least = quota.min.get(name, 0)
            claimants.append(Claimant(quota.namespace, demand, least, quota.sharing.weight))
    return {name: entitlements(ledger.total_min[name], claimants) for name, claimants in asked.items()}


def shares_by_resource(ledger: QuotaLedger, scale: ShareScale, quota: ElasticQuota) -> dict[str, Fraction]:
    """The weighted share of a quota in each resource by itself; that of a weight of 0 is not divided.

    The share of the quota is the largest of them. Resources that it does not borrow are left out.
    """
    over = borrows(ledger, quota)
    return {name: scale.fraction(scale.share(over, quota.sharing.weight, {name})) for name in over}
