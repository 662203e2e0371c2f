"""A quick test which flavors a quota may have no room in: most pods are placed while every flavor has some.

All use counts here, that of pods on their way out too, so what fits does so under every reading of the sum
of min (`scheduler_core.quota.policy.admit`). What does not fit here may fit there.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger


def tight_flavors(
    ledger: QuotaLedger, namespace: str, requests: ResourceList, flavors: Sequence[QuotaFlavor]
) -> Sequence[QuotaFlavor]:
    """The flavors of which a pod's requests may exceed the max of its quota or of a group, or the sum of min.

    All of them where groups keep something back: that takes the full rules.
    """
    quota = ledger.quota_of(namespace)
    if quota is None or ledger.tree.keeping:
        return flavors
    used, used_by_all, sums = ledger.used(namespace), ledger.total_used, ledger.total_min
    groups = [group for group in ledger.groups_above(namespace) if group.group.max] if ledger.tree else ()
    found = []
    for flavor in flavors:
        name, amount = flavor.virtual, requests[flavor.resource]
        limit, sum_of_min = quota.max.get(name), sums.get(name)
        if (
            (limit is not None and used.get(name, 0) + amount > limit)
            or (sum_of_min is not None and used_by_all.get(name, 0) + amount > sum_of_min)
            or any(
                name in group.group.max and group.sums.amount(name) + amount > group.group.max[name]
                for group in groups
            )
        ):
            found.append(flavor)
    return found
