"""Sums of what nominated pods that take precedence over a pod will use of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.framework.nominations.covered_nominations import (
    covered_behind,
    covered_nominations,
    unit_of,
)
from scheduler_core.framework.nominations.line import charged_before
from scheduler_core.framework.nominations.waiting_nominations import NOBODY_LEAVES, waiting_nominations
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination, NominationRights

_NOTHING: Final[ResourceList] = {}
_NOBODY: Final = frozenset[str]()
_NO_QUOTAS: Final[Mapping[str, ResourceList]] = {}


def nominated_requests(
    state: ClusterState,
    pod: Pod,
    *,
    beside: ResourceList = _NOTHING,
    guaranteed: bool = False,
    without_kept: bool = False,
    without_waiting: bool = False,
    in_order: bool = False,
) -> tuple[dict[str, int], dict[str, int]]:
    """(own quota, all quotas): what nominated pods that take precedence will use.

    Of its own quota, those after it that stay within its min count, too, unless the pod does so as well.
    `beside` is further use of the pod's quota, by pods that do not take precedence. `guaranteed` treats the
    pod as within its min. With `without_kept`, pods for which nodes are merely kept do not count; with
    `without_waiting`, pods that wait for leaving pods (`waiting_nominations`). With this or `in_order`,
    of those that wait for nobody only the earlier ones count for one that waits for nobody either.
    """
    own = own_nominated(
        state, pod, without_kept=without_kept, without_waiting=without_waiting, in_order=in_order
    )
    if len(state.nominations) and not (guaranteed or stays_within_min(state, pod, own)):
        shift(
            own, covered_behind(state, pod, waiting_nominations(state).uids if without_waiting else _NOBODY)
        )
    shift(own, beside)
    total = dict(own)
    others, by_namespace = _of_others(
        state,
        pod,
        own,
        guaranteed=guaranteed,
        without_kept=without_kept,
        without_waiting=without_waiting,
        in_order=in_order,
    )
    shift(total, others)
    shift(total, by_namespace.get(pod.namespace, _NOTHING), -1)
    return own, total


def nominated_by_quota(
    state: ClusterState,
    pod: Pod,
    *,
    guaranteed: bool = False,
    without_waiting: bool = False,
    in_order: bool = False,
) -> Mapping[str, ResourceList]:
    """What nominated pods that take precedence will use, by namespace; for groups of quotas alone.

    The flags are those of `nominated_requests`. Empty without groups. Read only.
    """
    if not state.ledger.tree or not len(state.nominations):
        return _NO_QUOTAS
    own = own_nominated(state, pod, without_waiting=without_waiting, in_order=in_order)
    return _of_others(
        state, pod, own, guaranteed=guaranteed, without_waiting=without_waiting, in_order=in_order
    )[1]


def _of_others(
    state: ClusterState,
    pod: Pod,
    own: ResourceList,
    *,
    guaranteed: bool,
    without_kept: bool = False,
    without_waiting: bool = False,
    in_order: bool = False,
) -> tuple[ResourceList, Mapping[str, ResourceList]]:
    """`nominated_of_quotas` as they count against a pod; `own` are the nominated pods of its quota."""
    guaranteed = guaranteed or stays_within_min(state, pod, own)
    without_kept = without_kept or guaranteed or _evicted_for_it(state, pod)
    itself = _ready(state, pod) if without_waiting or in_order else None
    if itself is not None:
        return _before_ready(
            state, itself, without_kept=without_kept, guaranteed=guaranteed, without_waiting=without_waiting
        )
    return nominated_of_quotas(
        state, without_kept=without_kept, guaranteed=guaranteed, without_waiting=without_waiting
    )


def _ready(state: ClusterState, pod: Pod) -> Nomination | None:
    """The nomination of a pod that evicted, if it has one and waits for nobody."""
    itself = state.nominations.get(pod.uid)
    if itself is None or itself.kept or pod.uid in waiting_nominations(state).uids:
        return None
    return itself


def _before_ready(
    state: ClusterState, itself: Nomination, *, without_kept: bool, guaranteed: bool, without_waiting: bool
) -> tuple[ResourceList, Mapping[str, ResourceList]]:
    """`nominated_of_quotas` for one that does not wait: of the others that do not, those before it in order.

    Of those that wait, none or all.

    Pods of several quotas that might all start now would else all wait for each other. Those within the min
    of their quotas come before all that would borrow.
    """
    waiting = waiting_nominations(state).uids
    amounts: dict[str, dict[str, int]] = {}
    for item in state.nominations.waiting(lambda rights: not (without_kept and rights.kept)):
        before = item.rank < itself.rank or (not guaranteed and _is_covered(state, item))
        if not without_waiting if item.pod.uid in waiting else before:
            shift(amounts.setdefault(item.pod.namespace, {}), charged(item.charge))
    return _counted(
        state,
        nominated_by_namespace(state, without_kept=without_kept),
        amounts,
        guaranteed,
        now=without_waiting,
    )


def _is_covered(state: ClusterState, nominee: Nomination) -> bool:
    """Whether a nominated pod stays within the min of its quota, in the order of the quota."""
    quota = state.ledger.quota_of(nominee.pod.namespace)
    return quota is not None and covered_nominations(state, quota).get(unit_of(nominee), False)


def nominated_of_quotas(
    state: ClusterState,
    *,
    without_kept: bool = True,
    guaranteed: bool = False,
    without_waiting: bool = False,
) -> tuple[ResourceList, Mapping[str, ResourceList]]:
    """(total, by namespace): what nominated pods of quotas count against a pod of another quota. Read only.

    Equal for all pods with the same rights, so it is kept while nothing changes.
    """
    nominations = state.nominations
    known = nominations.cache(state.ledger.version)
    variant = (without_kept, guaranteed, without_waiting)
    found: tuple[ResourceList, Mapping[str, ResourceList]] | None = known.get(variant)
    if found is None:
        every = nominated_by_namespace(state, without_kept=without_kept)
        amounts = {namespace: dict(sums) for namespace, sums in every.items()}
        for rights, sums in waiting_nominations(state).sums.items() if without_waiting else ():
            if not (without_kept and rights.kept):
                shift(amounts[rights.namespace], sums, -1)
        found = known[variant] = _counted(state, every, amounts, guaranteed, now=without_waiting)
    return found


def nominated_by_namespace(state: ClusterState, *, without_kept: bool = True) -> dict[str, dict[str, int]]:
    """What all nominated pods will use if they start, whatever the max of their quotas."""
    found: dict[str, dict[str, int]] = {}
    for rights, sums in state.nominations.sums.items():
        if not (without_kept and rights.kept):
            shift(found.setdefault(rights.namespace, {}), sums)
    return found


def _counted(
    state: ClusterState,
    every: Mapping[str, ResourceList],
    amounts: Mapping[str, ResourceList],
    guaranteed: bool,
    *,
    now: bool,
) -> tuple[ResourceList, Mapping[str, ResourceList]]:
    """(total, by namespace) of `amounts` that some nominated pods will use; `every`: what all will use.

    A quota counts with at most what its max leaves: beyond it none of its pods will start.
    """
    total: dict[str, int] = {}
    parts: dict[str, ResourceList] = {}
    for namespace, part in amounts.items():
        quota = state.ledger.quota_of(namespace)
        if quota is not None:
            if guaranteed:
                part = _guaranteed_part(state, quota, every[namespace], part, now=now)
            part = _within_max(state, quota, part)
            parts[namespace] = part
            shift(total, part)
    return total, parts


def _within_max(state: ClusterState, quota: ElasticQuota, amounts: ResourceList) -> ResourceList:
    """Of some `amounts` that a quota's nominated pods will use, those for which its max leaves room, beside
    pods that stay.
    """
    if not quota.max:
        return amounts
    used, leaving = state.ledger.used(quota.namespace), state.ledger.leaving(quota.namespace)
    return {
        name: max(0, min(value, quota.max[name] - used.get(name, 0) + leaving.get(name, 0)))
        if name in quota.max
        else value
        for name, value in amounts.items()
    }


def _guaranteed_part(
    state: ClusterState, quota: ElasticQuota, nominated: ResourceList, amounts: ResourceList, *, now: bool
) -> dict[str, int]:
    """Of some `amounts` that a quota's nominated pods will use, those that count for a pod of another quota
    within its min: of resources of which the quota uses no more than its min with all that is nominated.

    `now`: before its leaving pods are gone it is guaranteed at most what its min leaves beside them.
    """
    used, leaving = state.ledger.used(quota.namespace), state.ledger.leaving(quota.namespace)
    found: dict[str, int] = {}
    for name, value in amounts.items():
        left = quota.min.get(name, 0) - used.get(name, 0)
        if nominated[name] <= left + leaving.get(name, 0):
            found[name] = max(0, min(value, left)) if now else value
    return found


def own_nominated(
    state: ClusterState,
    pod: Pod,
    *,
    without_kept: bool = False,
    without_waiting: bool = False,
    in_order: bool = False,
) -> dict[str, int]:
    """The future use of other nominated pods of the pod's quota, of at least its priority.

    Members of a gang that was nominated as a whole do not count against each other. Of two nominated pods of
    equal priority the older one takes precedence. The flags are those of `nominated_requests`: for a pod
    within the min, others that would borrow and wait for nobody come later (`covered_behind` is for these).
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

    waiting = waiting_nominations(state) if without_waiting else NOBODY_LEAVES
    itself = nominations.get(pod.uid)
    if itself is None or itself.kept:
        for rights, sums in nominations.sums.items():
            if counts(rights):
                shift(own, sums)
                shift(own, waiting.sums.get(rights, _NOTHING), -1)
        listed = itself is not None and counts(itself.rights) and nominations.counts(pod.uid)
        if listed and itself is not None and pod.uid not in waiting.uids:
            # The sums contain the pod's own nomination; its request must not count.
            shift(own, charged(itself.charge), -1)
        return own
    if not (group or without_waiting or in_order) and itself.priority >= pod.priority:
        return dict(charged_before(state, itself))
    first = (without_waiting or in_order) and _ready(state, pod) is not None and _is_covered(state, itself)
    for item in nominations.waiting(lambda rights: counts(rights) and not rights.kept):
        if item.rank < itself.rank and item.pod.uid not in waiting.uids:
            if first and not _is_covered(state, item) and _ready(state, item.pod) is not None:
                continue
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
    nominated = state.nominations.get(pod.uid)
    # By the flavors of the nominated node, or of the nodes that the pod selects.
    asked = nominated.charge if nominated is not None else state.nodes.flavors.asked(pod)
    return quota is not None and within_min(state.ledger, quota, asked, own)
