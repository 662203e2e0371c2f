"""What quotas keep of each flavor when other quotas reclaim (docs/flavors.md#rules).

A quota may borrow of the total and yet stay within its min of a flavor. Then it loses pods on other nodes:
those on nodes of this flavor are guaranteed. Without this rule a claim could take them, and the quota could
not claim them back, as it is not within its min of the total. A guaranteed unit of a flavor is no shield for
what else a pod borrows, such as CPUs: a pod that borrows nothing beside may claim the unit back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import lendable, relevant
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.departing import can_end


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
    """bool [rows]: pods of quotas that borrow nothing of the flavor of the pod's node, and nothing else that
    the pod uses, other than the flavor's resource.

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
                here = (owners == number) & (table.requests[row, :size] > 0)
                borrowed = {state.index.names[k]: k for k in np.flatnonzero(left[number] > 0).tolist()}
                rows = [borrowed[other] for other in _beside(state, name, borrowed)]
                kept |= here & ~(table.requests[rows, :size] > 0).any(axis=0)
    return kept


def _beside(state: ClusterState, virtual: str, names: Iterable[str]) -> list[str]:
    """These resources without that of a flavor and all of its flavors."""
    for resource, flavors in state.nodes.flavors.by_resource.items():
        own = {flavor.virtual for flavor in flavors}
        if virtual in own:
            return [name for name in names if name != resource and name not in own]
    return list(names)


def keeps_flavors(state: ClusterState, pod: Pod, victims: Iterable[Pod]) -> bool:
    """Whether, in some order, every other quota borrows of a flavor before each of its victims there goes, or
    of something else that the victim uses.

    Victims that are all that runs of a gang go together.
    """
    if not state.nodes.flavors:
        return True
    others = [victim for victim in victims if victim.namespace != pod.namespace]
    units, lost = units_of(state, others), dict[str, dict[str, dict[str, int]]]()
    for victim in others:
        of_quota = lost.setdefault(victim.namespace, {})
        shift(of_quota.setdefault(units[victim.uid], {}), charged(state.charge_of(victim)))
    return all(_keeps(state, namespace, list(amounts.values())) for namespace, amounts in lost.items())


def _keeps(state: ClusterState, namespace: str, lost: Sequence[dict[str, int]]) -> bool:
    """Whether one quota may lose these units by what it keeps of each flavor."""
    quota = state.ledger.quota_of(namespace)
    if quota is None:
        return True
    used = lendable(state.ledger, quota)
    borrows = {name: used.get(name, 0) - quota.min.get(name, 0) for name in relevant(state.ledger, quota)}
    for name in guaranteed_flavors(state, quota):
        beside = _beside(state, name, (other for other, value in borrows.items() if value > 0))
        here = [amounts for amounts in lost if amounts.get(name, 0)]
        by_flavor = [amounts for amounts in here if not any(amounts.get(other, 0) for other in beside)]
        by_others = [amounts for amounts in here if amounts not in by_flavor]
        if by_flavor and not _is_over_before_last(by_flavor, by_flavor, {name: borrows[name]}):
            return False
        loans = {other: borrows[other] for other in (name, *beside)}
        if by_others and not _is_over_before_last(by_others, lost, loans):
            return False
    return True


def _is_over_before_last(
    some: Sequence[dict[str, int]], lost: Sequence[dict[str, int]], borrows: Mapping[str, int]
) -> bool:
    """Whether one of some units may go last of all that are lost: something that it uses is borrowed then."""
    total: dict[str, int] = {}
    for amounts in lost:
        shift(total, amounts)
    return any(
        value > 0 and borrows[name] - total[name] + value > 0
        for amounts in some
        for name, value in amounts.items()
        if name in borrows
    )


def units_of(state: ClusterState, victims: Sequence[Pod]) -> dict[str, str]:
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
                uid not in going and can_end(state, uid) and not state.table.ending[state.placed[uid].row]
                for uid in state.gangs.members(gang.key)
            )
        found[victim.uid] = gang.key if whole[gang.key] else victim.uid
    return found
