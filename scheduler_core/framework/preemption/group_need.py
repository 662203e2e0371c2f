"""What victims must free for the groups above a quota (docs/quota-trees.md#rules)."""

from __future__ import annotations

from scheduler_core.framework.nominations.nominated_sums import nominated_by_quota
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.group_limits import Reading, beyond_group_max, kept_back
from scheduler_core.quota.ledger import plus
from scheduler_core.state.cluster import ClusterState


def with_kept_back(
    state: ClusterState,
    pod: Pod,
    quota: ElasticQuota,
    total: dict[str, int],
    asked: ResourceList,
    *,
    guaranteed: bool = False,
    guaranteeing: bool = False,
) -> dict[str, int]:
    """`total` (what nominated pods will use) and what groups keep back, of the resources that are asked for.

    Pods on their way out do not count.
    """
    ledger = state.ledger
    if not ledger.tree.keeping:
        return total
    coming = nominated_by_quota(state, pod, guaranteed=guaranteed)
    reading = Reading(ledger, coming, True, guaranteed, guaranteeing)
    kept = kept_back(reading, quota, asked)
    return plus(total, kept.amounts) if kept.amounts else total


def short_of_group_max(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, own: ResourceList
) -> dict[str, int]:
    """By how much a charge exceeds the max of the groups above its quota, the most per resource.

    Use above the max of a nearer group counts, too: a further one sees less only once it has ended. `own` is
    what nominated pods of the quota will use. Pods on their way out do not count.
    """
    found: dict[str, int] = {}
    nearer: dict[str, int] = {}
    accounts = state.ledger.tree.accounts
    for group, name, short in beyond_group_max(
        state.ledger, quota, asked, own, nominated_by_quota(state, pod)
    ):
        found[name] = max(short + nearer.get(name, 0), found.get(name, 0))
        nearer[name] = nearer.get(name, 0) + accounts[group].above_max(name, after_leaving=True)
    return found
