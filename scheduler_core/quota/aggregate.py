"""The two readings of the rule sum(min) (docs/quota.md#two-readings-of-summin).

AllResources: every resource that some quota names in min is limited by the sum of min, for all quotas alike.
GuaranteedResources: work that stays within the min of every resource that its quota guarantees is not limited
in resources of which its quota guarantees nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler_core.model.names import ALL_RESOURCES, GUARANTEED_RESOURCES
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger, less

_NOTHING: Final[ResourceList] = {}


def guaranteed(quota: ElasticQuota) -> frozenset[str]:
    """The resources of which a quota guarantees something: those in its min, without zeros."""
    return frozenset(name for name, amount in quota.min.items() if amount > 0)


def stays_below_min(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    names: frozenset[str] | set[str],
    charge: ResourceList,
    nominated: ResourceList = _NOTHING,
) -> bool:
    """Whether `used + nominated + charge <= min` in each of `names` that the charge requests.

    Pods of the same quota that are on their way out do not count.
    """
    used = less(ledger.used(quota.namespace), ledger.leaving(quota.namespace))
    return all(
        used.get(name, 0) + nominated.get(name, 0) + asked <= quota.min.get(name, 0)
        for name, asked in charge.items()
        if asked > 0 and name in names
    )


def within_guarantees(
    ledger: QuotaLedger, quota: ElasticQuota, charge: ResourceList, nominated: ResourceList = _NOTHING
) -> bool:
    """Whether a charge stays within the min of every resource that its quota guarantees.

    Never where the quota guarantees nothing: all that it uses is borrowed.
    """
    names = guaranteed(quota)
    return bool(names) and stays_below_min(ledger, quota, names, charge, nominated)


def counts_guarantees(
    ledger: QuotaLedger, quota: ElasticQuota, charge: ResourceList, nominated: ResourceList = _NOTHING
) -> bool:
    """Whether the sum of min is compared with the use of quotas that guarantee the resource alone.

    So it is for work within its guarantees under GuaranteedResources. Otherwise it would wait for, or take
    back, what others use beside their guarantees, although its own guarantee does not need it.
    """
    return ledger.aggregate == GUARANTEED_RESOURCES and within_guarantees(ledger, quota, charge, nominated)


def sum_limits(
    ledger: QuotaLedger, quota: ElasticQuota, charge: ResourceList, nominated: ResourceList = _NOTHING
) -> ResourceList:
    """The sums of min that limit a charge, by resource. Read only.

    `charge` is that of one pod or of a whole group; `nominated` is counted beside it.
    """
    if not counts_guarantees(ledger, quota, charge, nominated):
        return ledger.total_min
    return {name: total for name, total in ledger.total_min.items() if quota.min.get(name, 0) > 0}


def sums_of_all_orders(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    charges: Sequence[ResourceList],
    needed: ResourceList,
    used: ResourceList,
) -> ResourceList:
    """The sums of min that limit pods that start together, whichever of them starts last. Read only.

    `charges` are those of the pods, `needed` the least that must start, `used` what the quota uses beside
    them. The last pod is limited in all resources if it needs more of a guaranteed one than its min leaves;
    this is certain only where every pod requests this resource.
    """
    names = guaranteed(quota)
    if ledger.aggregate == ALL_RESOURCES or not names:
        return ledger.total_min

    def common(name: str) -> bool:
        return all(charge.get(name, 0) > 0 for charge in charges)

    beyond = any(used.get(name, 0) + needed.get(name, 0) > quota.min[name] and common(name) for name in names)
    return {
        name: total for name, total in ledger.total_min.items() if name in names or (beyond and common(name))
    }


def limits_everybody(ledger: QuotaLedger) -> ResourceList:
    """The sums of min that limit all work of all quotas, by resource. Read only."""
    if ledger.aggregate == ALL_RESOURCES:
        return ledger.total_min
    claims = [guaranteed(quota) for quota in ledger.quotas()]
    return {name: total for name, total in ledger.total_min.items() if all(name in found for found in claims)}


def reclaims_guaranteed(
    ledger: QuotaLedger, quota: ElasticQuota, charge: ResourceList, nominated: ResourceList = _NOTHING
) -> bool:
    """Whether a charge may reclaim although it borrows: GuaranteedResources, and it needs what is guaranteed.

    Its victims are pods of quotas that exceed a guarantee of their own (`policy.reclaimable_from`).
    """
    return (
        ledger.aggregate == GUARANTEED_RESOURCES
        and any(charge.get(name, 0) > 0 for name in guaranteed(quota))
        and within_guarantees(ledger, quota, charge, nominated)
    )
