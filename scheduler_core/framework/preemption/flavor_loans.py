"""What quotas keep of each flavor when other quotas reclaim (docs/flavors.md#rules).

A quota may borrow of the total and yet stay within its min of a flavor. Then it loses pods on other nodes:
those on nodes of this flavor are guaranteed. Without this rule a claim could take them, and the quota could
not claim them back, as it is not within its min of the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.ledger import shift
from scheduler_core.quota.policy import lendable, relevant
from scheduler_core.state.cluster import ClusterState


def guaranteed_flavors(state: ClusterState, quota: ElasticQuota) -> list[str]:
    """The flavors of which a quota guarantees something, as the resources that they make.

    None of a resource of which it guarantees less than of its flavors together: the total goes first.
    """
    names = relevant(state.ledger, quota)
    found: list[str] = []
    for resource, flavors in state.nodes.flavors.by_resource.items():
        own = [flavor.virtual for flavor in flavors if quota.min.get(flavor.virtual, 0)]
        if resource not in names or sum(quota.min[name] for name in own) <= quota.min.get(resource, 0):
            found += own
    return found


def kept_by_flavor(
    state: ClusterState, quotas: Sequence[ElasticQuota], of: Int64, left: Int64, size: int
) -> Bool:
    """bool [rows]: pods of quotas that borrow nothing of the flavor of the pod's node.

    `of` int64 [namespaces] gives the number of a quota, -1 for none; `left` int64 [Q, R] is what they borrow.
    `size` is the number of rows.
    """
    table = state.table
    kept: Bool = np.zeros(size, dtype=np.bool_)
    if not state.nodes.flavors:
        return kept
    owners = np.append(of, -1)[table.namespace[:size]]
    for number, quota in enumerate(quotas):
        for name in guaranteed_flavors(state, quota):
            row = state.index.row(name)
            if row is not None and left[number, row] <= 0:
                kept |= (owners == number) & (table.requests[row, :size] > 0)
    return kept


def keeps_flavors(state: ClusterState, pod: Pod, victims: Iterable[Pod]) -> bool:
    """Whether every other quota borrows of a flavor before the last of its victims there goes.

    Victims that are all that runs of a gang go together.
    """
    if not state.nodes.flavors:
        return True
    others = [victim for victim in victims if victim.namespace != pod.namespace]
    units, lost = _units(state, others), dict[str, dict[str, dict[str, int]]]()
    for victim in others:
        of_quota = lost.setdefault(victim.namespace, {})
        shift(of_quota.setdefault(units[victim.uid], {}), state.charge_of(victim))
    return all(_keeps(state, namespace, list(amounts.values())) for namespace, amounts in lost.items())


def _keeps(state: ClusterState, namespace: str, lost: Sequence[dict[str, int]]) -> bool:
    """Whether one quota borrows of each flavor before the last of the units goes that it loses."""
    quota = state.ledger.quota_of(namespace)
    if quota is None:
        return True
    used, total = lendable(state.ledger, quota), dict[str, int]()
    for amounts in lost:
        shift(total, amounts)
    for name in guaranteed_flavors(state, quota):
        largest = max(amounts.get(name, 0) for amounts in lost)
        if largest and total[name] - largest >= used.get(name, 0) - quota.min[name]:
            return False
    return True


def _units(state: ClusterState, victims: Sequence[Pod]) -> dict[str, str]:
    """The unit in which each victim (uid) goes: its gang, if all of it that runs goes, else itself."""
    going, whole = {victim.uid for victim in victims}, dict[str, bool]()
    found = {}
    for victim in victims:
        gang = state.gangs.of(victim)
        if gang is None:
            found[victim.uid] = victim.uid
            continue
        if gang.key not in whole:
            whole[gang.key] = not any(
                uid not in going and uid in state.placed and not state.table.ending[state.placed[uid].row]
                for uid in state.gangs.members(gang.key)
            )
        found[victim.uid] = gang.key if whole[gang.key] else victim.uid
    return found
