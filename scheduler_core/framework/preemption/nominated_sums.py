"""Sums of what nominated pods that take precedence over a pod will use of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import NominationRights

_NOTHING: Final[ResourceList] = {}
_NO_QUOTAS: Final[Mapping[str, ResourceList]] = {}


def nominated_requests(
    state: ClusterState,
    pod: Pod,
    *,
    beside: ResourceList = _NOTHING,
    leaving_count: bool = False,
    guaranteed: bool = False,
    without_kept: bool = False,
) -> tuple[dict[str, int], dict[str, int]]:
    """(own quota, all quotas): what nominated pods that take precedence will use.

    `beside` is further use of the pod's quota, by pods that do not take precedence. With `leaving_count` the
    result is to be added to a use that includes leaving pods. `guaranteed` treats the pod as within its min.
    With `without_kept`, pods for which nodes are merely kept do not count.
    """
    own = own_nominated(state, pod, without_kept=without_kept)
    shift(own, beside)
    total = dict(own)
    others, by_namespace = _of_others(
        state, pod, own, leaving_count=leaving_count, guaranteed=guaranteed, without_kept=without_kept
    )
    shift(total, others)
    shift(total, by_namespace.get(pod.namespace, _NOTHING), -1)
    return own, total


def nominated_by_quota(
    state: ClusterState, pod: Pod, *, leaving_count: bool = False, guaranteed: bool = False
) -> Mapping[str, ResourceList]:
    """What nominated pods that take precedence will use, by namespace; for groups of quotas alone.

    The flags are those of `nominated_requests`. Empty without groups. Read only.
    """
    if not state.ledger.tree or not len(state.nominations):
        return _NO_QUOTAS
    own = own_nominated(state, pod)
    return _of_others(state, pod, own, leaving_count=leaving_count, guaranteed=guaranteed)[1]


def _of_others(
    state: ClusterState,
    pod: Pod,
    own: ResourceList,
    *,
    leaving_count: bool,
    guaranteed: bool,
    without_kept: bool = False,
) -> tuple[ResourceList, Mapping[str, ResourceList]]:
    """`nominated_of_quotas` as they count against a pod; `own` are the nominated pods of its quota."""
    guaranteed = guaranteed or stays_within_min(state, pod, own)
    without_kept = without_kept or guaranteed or _evicted_for_it(state, pod)
    return nominated_of_quotas(
        state, without_kept=without_kept, guaranteed=guaranteed, leaving_count=leaving_count
    )


def nominated_of_quotas(
    state: ClusterState, *, without_kept: bool = True, guaranteed: bool = False, leaving_count: bool = False
) -> tuple[ResourceList, Mapping[str, ResourceList]]:
    """(total, by namespace): what nominated pods of quotas count against a pod of another quota. Read only.

    Equal for all pods with the same rights, so it is cached while nothing changes.
    """
    nominations, version = state.nominations, (state.ledger.version, state.nominations.version)
    if nominations.known[0] != version:
        nominations.known = (version, {})
    variant = (without_kept, guaranteed, leaving_count)
    found: tuple[ResourceList, Mapping[str, ResourceList]] | None = nominations.known[1].get(variant)
    if found is None:
        by_namespace: dict[str, dict[str, int]] = {}
        for rights, sums in nominations.sums.items():
            if not (without_kept and rights.kept):
                shift(by_namespace.setdefault(rights.namespace, {}), sums)
        total: dict[str, int] = {}
        parts: dict[str, ResourceList] = {}
        for namespace, amounts in by_namespace.items():
            quota = state.ledger.quota_of(namespace)
            if quota is not None:
                part = _guaranteed_part(state, quota, amounts, leaving_count) if guaranteed else amounts
                parts[namespace] = part
                shift(total, part)
        found = nominations.known[1][variant] = total, parts
    return found


def _guaranteed_part(
    state: ClusterState, quota: ElasticQuota, nominated: ResourceList, leaving_count: bool
) -> dict[str, int]:
    """The use by a quota's nominated pods that counts for a pod of another quota within its min.

    A resource of which the quota would use more than its min counts nothing; other resources keep their
    guarantee. With `leaving_count`, use of leaving pods is counted already: then at most what the min leaves
    counts, and nothing of the room of leaving pods that the nominated pods wait for, which would count twice.
    """
    used, leaving = state.ledger.used(quota.namespace), state.ledger.leaving(quota.namespace)
    awaited: ResourceList | None = None
    found: dict[str, int] = {}
    for name, value in nominated.items():
        left, ending = quota.min.get(name, 0) - used.get(name, 0), leaving.get(name, 0)
        if value > left + ending:
            continue
        found[name] = value
        if leaving_count and ending:
            awaited = _awaited(state, quota.namespace) if awaited is None else awaited
            found[name] = max(0, min(value - awaited.get(name, 0), left))
    return found


def _awaited(state: ClusterState, namespace: str) -> dict[str, int]:
    """Requests of leaving pods of a quota that nominated pods of the same quota wait for.

    These are the victims of the nominated pods, or all leaving pods of the node for a pod without victims.
    """
    victims, nodes = set[str](), set[str]()
    for item in state.nominations.waiting(lambda key: key.namespace == namespace and not key.kept):
        victims |= item.victims
        if not item.victims:
            nodes.add(item.node)
    slots = [slot for slot in map(state.nodes.slot, nodes) if slot is not None]
    ledger, found = state.ledger, dict[str, int]()
    for uid in victims.union(*(state.nodes.pods[slot] for slot in slots)):
        if ledger.is_leaving(namespace, uid):
            shift(found, charged(ledger.charges(namespace)[uid]))
    return found


def own_nominated(state: ClusterState, pod: Pod, *, without_kept: bool = False) -> dict[str, int]:
    """The future use of other nominated pods of the pod's quota, of at least its priority.

    Members of a gang that was nominated as a whole do not count against each other. Of two nominated pods of
    equal priority the older one takes precedence. `without_kept`: as in `nominated_requests`.
    """
    own: dict[str, int] = {}
    if state.ledger.quota_of(pod.namespace) is None:
        return own
    group, nominations = state.gangs.unit_of(pod), state.nominations

    def counts(rights: NominationRights) -> bool:
        if rights.namespace != pod.namespace or rights.priority < pod.priority:
            return False
        if without_kept and rights.kept:
            return False
        return not (rights.group and rights.group == group)

    itself = nominations.get(pod.uid)
    if itself is None or itself.kept:
        for rights, sums in nominations.sums.items():
            if counts(rights):
                shift(own, sums)
        if itself is not None and counts(itself.rights) and nominations.counts(pod.uid):
            # The sums contain the pod's own nomination; its request must not count.
            shift(own, charged(itself.charge), -1)
        return own
    for item in nominations.waiting(lambda rights: counts(rights) and not rights.kept):
        if item.rank < itself.rank:
            shift(own, charged(item.charge))
    return own


def siblings_nominated(state: ClusterState, pod: Pod) -> dict[str, int]:
    """The future use of the other members of the pod's gang that were nominated together with it."""
    nominations = state.nominations
    itself = nominations.get(pod.uid)
    found: dict[str, int] = {}
    if itself is None or not itself.group or state.ledger.quota_of(pod.namespace) is None:
        return found
    for rights, sums in nominations.sums.items():
        if rights.group == itself.group:
            shift(found, sums)
    if nominations.counts(pod.uid):
        shift(found, charged(itself.charge), -1)
    return found


def _evicted_for_it(state: ClusterState, pod: Pod) -> bool:
    """Whether the pod is nominated after a preemption, not because a node is kept for its gang."""
    itself = state.nominations.get(pod.uid)
    return itself is not None and not itself.kept


def stays_within_min(state: ClusterState, pod: Pod, own: ResourceList) -> bool:
    """Whether the pod stays within the min of its quota, with `own` use of pods that take precedence."""
    quota = state.ledger.quota_of(pod.namespace)
    return quota is not None and within_min(state.ledger, quota, pod.requests, own)
