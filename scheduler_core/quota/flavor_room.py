"""A quick test whether a quota has room in a flavor: most pods are placed while every flavor has some.

All use counts here, that of pods on their way out too, so what fits does so under every reading of the sum
of min (`scheduler_core.quota.policy.admit`). What does not fit here may fit there.
"""

from __future__ import annotations

from scheduler_core.quota.ledger import QuotaLedger


def fits_at_once(ledger: QuotaLedger, namespace: str, name: str, amount: int) -> bool:
    """Whether so much more of a resource fits the max of the quota and of its groups, and the sum of min.

    False also where groups keep something back: that takes the full rules.
    """
    quota = ledger.quota_of(namespace)
    if quota is None or ledger.tree.keeping:
        return False
    limit = quota.max.get(name)
    if limit is not None and ledger.used(namespace).get(name, 0) + amount > limit:
        return False
    limit = ledger.total_min.get(name)
    if limit is not None and ledger.total_used.get(name, 0) + amount > limit:
        return False
    for group in ledger.groups_above(namespace):
        limit = group.group.max.get(name)
        if limit is not None and group.sums.amount(name) + amount > limit:
            return False
    return True
