"""What nominated pods will use of quotas, as far as they go before a pod (reference, rule 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.gang import group_key
from scheduler_core.model.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nominations import Standing

_NOTHING: Final[ResourceList] = {}


def nominated_requests(
    state: ClusterState,
    pod: Pod,
    *,
    beside: ResourceList = _NOTHING,
    leaving_count: bool = False,
    guaranteed: bool = False,
) -> tuple[dict[str, int], dict[str, int]]:
    """(of the pod's own quota, of all quotas): what nominated pods that go first will use.

    `beside` is what the pod's quota will use besides, by pods that do not go first. With `leaving_count` all
    of it is to be added to use in which those are who are on their way out. `guaranteed`: as if the pod
    stayed within its min, whether or not it does.
    """
    own = own_nominated(state, pod)
    shift(own, beside)
    total = dict(own)
    guaranteed = guaranteed or stays_within_min(state, pod, own)
    without_kept = guaranteed or _evicted_for_it(state, pod)
    others, by_namespace = _of_quotas(state, without_kept, guaranteed, leaving_count)
    shift(total, others)
    shift(total, by_namespace.get(pod.namespace, _NOTHING), -1)
    return own, total


def _of_quotas(
    state: ClusterState, without_kept: bool, guaranteed: bool, leaving_count: bool
) -> tuple[ResourceList, Mapping[str, ResourceList]]:
    """(together, by namespace): what counts of the nominated pods of quotas against a pod of another one.

    The same for all that have the same right, so that it is found out once while nothing changes.
    """
    nominations, version = state.nominations, (state.ledger.version, state.nominations.version)
    if nominations.known[0] != version:
        nominations.known = (version, {})
    variant = (without_kept, guaranteed, leaving_count)
    found: tuple[ResourceList, Mapping[str, ResourceList]] | None = nominations.known[1].get(variant)
    if found is None:
        total: dict[str, int] = {}
        parts: dict[str, ResourceList] = {}
        for namespace, sums in _by_namespace(state, without_kept=without_kept).items():
            quota = state.ledger.quota_of(namespace)
            if quota is not None:
                part = _guaranteed_part(state, quota, sums, leaving_count) if guaranteed else sums
                parts[namespace] = part
                shift(total, part)
        found = nominations.known[1][variant] = total, parts
    return found


def _by_namespace(state: ClusterState, *, without_kept: bool) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for standing, sums in state.nominations.sums.items():
        if not (without_kept and standing.kept):
            shift(found.setdefault(standing.namespace, {}), sums)
    return found


def _guaranteed_part(
    state: ClusterState, quota: ElasticQuota, nominated: ResourceList, leaving_count: bool
) -> dict[str, int]:
    """What of a quota's nominated pods counts against another one that is within its min.

    Nothing of a resource of which they, beside those who stay, use more than its min: who borrows one thing
    keeps the right to what it reclaims of another. And no more than its min leaves beside those who have not
    left yet, where they count, and nothing of what pods of the quota hold that those wait for: else the room
    of a pod would count twice until it is gone.
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
    """What pods of a quota hold for whose end its own nominated pods wait, so that both never use it at once.

    Those are their victims; one that evicted nobody waits for who leaves its node anyhow.
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


def own_nominated(state: ClusterState, pod: Pod) -> dict[str, int]:
    """What other nominated pods of the pod's quota, of at least its priority, will use.

    Members for whose gang as a whole nodes were found do not stand in each other's way. Of two nominated pods
    of one priority the older one goes first.
    """
    own: dict[str, int] = {}
    if state.ledger.quota_of(pod.namespace) is None:
        return own
    group, nominations = group_key(pod), state.nominations

    def counts(standing: Standing) -> bool:
        if standing.namespace != pod.namespace or standing.priority < pod.priority:
            return False
        return not (standing.group and standing.group == group)

    itself = nominations.get(pod.uid)
    if itself is None or itself.kept:
        for standing, sums in nominations.sums.items():
            if counts(standing):
                shift(own, sums)
        if itself is not None and counts(itself.standing) and nominations.counts(pod.uid):
            # The pod's own nomination is in the sums: its request is what we are asked about.
            shift(own, charged(pod.requests), -1)
        return own
    for item in nominations.waiting(lambda standing: counts(standing) and not standing.kept):
        if item.rank < itself.rank:
            shift(own, charged(item.pod.requests))
    return own


def siblings_nominated(state: ClusterState, pod: Pod) -> dict[str, int]:
    """What the other members will use for which, with the pod, nodes were found together."""
    nominations = state.nominations
    itself = nominations.get(pod.uid)
    found: dict[str, int] = {}
    if itself is None or not itself.group or state.ledger.quota_of(pod.namespace) is None:
        return found
    for standing, sums in nominations.sums.items():
        if standing.group == itself.group:
            shift(found, sums)
    if nominations.counts(pod.uid):
        shift(found, charged(pod.requests), -1)
    return found


def _evicted_for_it(state: ClusterState, pod: Pod) -> bool:
    """Whether the pod is nominated, and not merely because a node is kept for its gang."""
    itself = state.nominations.get(pod.uid)
    return itself is not None and not itself.kept


def stays_within_min(state: ClusterState, pod: Pod, own: ResourceList) -> bool:
    """Whether the pod stays within the min of its quota, beside what goes first under it."""
    quota = state.ledger.quota_of(pod.namespace)
    return quota is not None and within_min(state.ledger, quota, pod.requests, own)
