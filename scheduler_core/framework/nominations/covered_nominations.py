"""Which nominated pods the min of their quota covers: the right that their nominations give them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, less, shift
from scheduler_core.quota.policy import charge_within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination, NominationRights

_NOTHING: Final[ResourceList] = {}


def unit_of(nominee: Nomination) -> str | NominationRights:
    """What starts together: a pod (uid), or nominated members of a group with equal rights."""
    return nominee.rights if nominee.group else nominee.pod.uid


def covered_nominations(state: ClusterState, quota: ElasticQuota) -> Mapping[str | NominationRights, bool]:
    """Whether the nominated units of a quota stay within its min.

    In their order, beside those before them that stay within it: others only borrow, and take no guarantee
    from those after them. So a right that others must give way to does not come and go with a nomination that
    itself gives way to others: the two would follow each other without end. Pods for which nodes are merely
    kept, and single pods of gangs, are left out. Kept while nothing changes.
    """
    cache = state.nominations.cache(state.ledger.version)
    key = (covered_nominations, quota.namespace)
    known: dict[str | NominationRights, bool] | None = cache.get(key)
    if known is None:
        known = cache[key] = {}
        ahead, siblings = dict[str, int](), dict[str, dict[str, int]]()
        for item in sorted(_of_quota(state, quota), key=lambda item: item.rank):
            unit, charge = unit_of(item), charged(item.charge)
            if unit not in known:
                whole = charged(state.nominations.sums[item.rights]) if item.group else charge
                before = less(ahead, siblings.get(item.group, _NOTHING)) if item.group else ahead
                known[unit] = charge_within_min(state.ledger, quota, whole, before)
            if known[unit]:
                shift(ahead, charge)
                if item.group:
                    shift(siblings.setdefault(item.group, {}), charge)
    return known


def _of_quota(state: ClusterState, quota: ElasticQuota) -> Iterator[Nomination]:
    """The nominated pods of a quota that wait alone or, as a group, together."""
    chosen = state.nominations.waiting(lambda rights: rights.namespace == quota.namespace and not rights.kept)
    return (item for item in chosen if item.group or not state.gangs.unit_of(item.pod))


class _Covered(NamedTuple):
    """Covered nominated pods of a quota by rank, and what the last K, ..., 1, 0 of them will use."""

    ranks: list[tuple[int, float, str]]
    sums: list[ResourceList]


def _covered_in_order(state: ClusterState, quota: ElasticQuota) -> _Covered:
    """Kept while nothing changes: an event asks each nominated pod what comes after it."""
    cache: dict[Any, Any] = state.nominations.cache(state.ledger.version)
    key = (_Covered, quota.namespace)
    found: _Covered | None = cache.get(key)
    if found is None:
        covered = covered_nominations(state, quota)
        items = [item for item in _of_quota(state, quota) if covered[unit_of(item)]]
        items.sort(key=lambda item: item.rank)
        sums: list[ResourceList] = [{}]
        for item in reversed(items):
            total = dict(sums[-1])
            shift(total, charged(item.charge))
            sums.append(total)
        found = cache[key] = _Covered([item.rank for item in items], sums[::-1])
    return found


def covered_behind(state: ClusterState, pod: Pod, waiting: frozenset[str]) -> ResourceList:
    """What covered nominated pods of the pod's quota that come after it in order will use. Read only.

    Without those that wait for leaving pods (uids).
    """
    found: dict[str, int] = {}
    quota = state.ledger.quota_of(pod.namespace)
    if quota is None:
        return found
    group = state.gangs.unit_of(pod)
    itself = state.nominations.get(pod.uid)
    if itself is not None and not (itself.kept or group or waiting):
        line = _covered_in_order(state, quota)
        return line.sums[bisect_right(line.ranks, itself.rank)]
    covered = covered_nominations(state, quota)
    for item in _of_quota(state, quota):
        if itself is None or itself.kept:
            behind = item.pod.priority < pod.priority
        else:
            behind = itself.rank < item.rank
        sibling = item.group and item.group == group
        if behind and covered[unit_of(item)] and not sibling and item.pod.uid not in waiting:
            shift(found, charged(item.charge))
    return found
