"""Obstacles between a waiting pod and a node, each with the events that can remove it.

The list is closed: every refusal is one of these obstacles, and a pod waits for the events of the obstacles
that it met. A new kind of event or a new reason for refusal belongs here. The property test of restarts
proves that no event is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import Final

from scheduler_core.framework.nominations.nominated_sums import own_nominated
from scheduler_core.framework.pod_terms import all_select, looks_around, selected_by
from scheduler_core.framework.preemption.eligibility import awaited
from scheduler_core.framework.queueing.hints import (
    EVERYBODY,
    NOBODY,
    NOMINATED,
    Hint,
    NarrowHint,
    Reach,
    Room,
    StandingHint,
)
from scheduler_core.framework.queueing.min_crossing import leave_the_min, moved_at_once
from scheduler_core.framework.queueing.neighbour_terms import beside, forms_of, hard_constraints
from scheduler_core.framework.queueing.quota_obstacles import FAIR_MOVE_LATER, may_be_short_later
from scheduler_core.framework.queueing.widest_victims import (
    evictable_requests,
    freed_by_victims,
    may_evict_its_own,
    may_move_fairly,
    may_reclaim,
    spares_some,
)
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota import policy
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import charge_within_min, within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.gangs.gangs import take_census
from scheduler_core.state.neighbours.selections import counted
from scheduler_core.state.nomination import Nomination

_NODE: Final = EventKind.NODE_ADD | EventKind.NODE_DELETE | EventKind.node_update()


class Obstacle(Enum):
    """An obstacle; its value is the union of events that can remove it.

    KIND: no node has the labels or taints that the pod needs. ROOM: resources or ports of nodes are in use.
    NEIGHBOURS: affinity or spread. VOLUMES: volumes. LOAD: measured load. GROUP: the group does not exist or
    has too few members. TOPOLOGY: no placement on the tree meets the constraints. NOMINATED: free room is
    kept for nominated pods. VICTIMS: no pod may be evicted, or it does not help. Quotas: `quota_obstacles`.
    """

    KIND = EventKind.NODE_ADD | EventKind.NODE_LABELS | EventKind.NODE_TAINTS
    ROOM = EventKind.NODE_ADD | EventKind.NODE_ALLOCATABLE | EventKind.POD_DELETE
    NEIGHBOURS = _NODE | EventKind.POD_ADD | EventKind.POD_UPDATE | EventKind.POD_DELETE | EventKind.OTHER
    VOLUMES = EventKind.NODE_ADD | EventKind.NODE_LABELS | EventKind.VOLUME | EventKind.POD_DELETE
    LOAD = (
        EventKind.NODE_METRIC
        | EventKind.NODE_ADD
        | EventKind.NODE_LABELS
        | EventKind.NODE_ALLOCATABLE
        | EventKind.POD_DELETE
    )
    GROUP = (
        EventKind.GROUP
        | EventKind.POD_ADD
        | EventKind.POD_UPDATE
        | EventKind.POD_DELETE
        | EventKind.POD_LEAVING
    )
    TOPOLOGY = _NODE | EventKind.TOPOLOGY | EventKind.GROUP
    NOMINATED = EventKind.anything()
    VICTIMS = (
        _NODE
        | EventKind.POD_ADD
        | EventKind.QUOTA
        | EventKind.GROUP
        | EventKind.NOMINATION
        | EventKind.POD_DELETE
        | EventKind.POD_LEAVING
    )

    def hints(
        self, narrow: Hint | None = None, freed: StandingHint | None = None
    ) -> dict[EventKind, Hint | None]:
        """The hints of a plugin that refuses for this obstacle; `narrow` may drop single events.

        `freed` decides whether the room of a deleted pod still suffices.
        """
        if freed is None:
            return {self.value: narrow}
        return {self.value & ~EventKind.POD_DELETE: narrow, EventKind.POD_DELETE: freed}


NOMINATED_PODS: Final = "NominatedPods"
PREEMPTION: Final = "Preemption"
PREEMPTION_BESIDE: Final = "PreemptionBesideOthers"
BESIDE_CLAIMS: Final = "PreemptionBesideClaims"
WITHIN_MIN: Final = "PreemptionWithinMin"
BESIDE_COVERED: Final = "PreemptionBesideCovered"


def preemption_hints() -> dict[str, Mapping[EventKind, Hint | None]]:
    """The obstacles that every profile has beside those of its plugins and of quotas, with their events.

    NOMINATED_PODS: free room is kept for nominated pods; any event may free it, or room elsewhere.
    PREEMPTION: no victims were found that help; the events make other pods eligible, or let the pod preempt
    again; a less important pod of its quota got room by a right that the pod lacks. PREEMPTION_BESIDE: the
    same for pods with affinity or spread; an added or changed pod may be one that they count.
    BESIDE_CLAIMS: the same where nominated pods have spread constraints; one of
    them has started and claims its place no more. WITHIN_MIN: the same for a pod within the min of its quota,
    whose victims are pods of other quotas; another quota borrows more, or its own quota got a pod and now
    provides the victims. BESIDE_COVERED: the same for a pod that spares those which the min of its quota
    covers (`preemption/covered.py`); a more important pod came, which the min covers before these; or a
    pod of the quota ended or leaves, so that the min may cover the pod itself.
    """
    return {
        NOMINATED_PODS: Obstacle.NOMINATED.hints(),
        PREEMPTION: {
            Obstacle.VICTIMS.value & ~EventKind.POD_LEAVING: NarrowHint(_may_find_victims, _reach_of_victims),
            EventKind.POD_LEAVING: StandingHint(_may_wait_for, _reach_of_leaving, _room_of_leaving),
            EventKind.OVERTAKEN: NarrowHint(_is_overtaken, _own_quota),
        },
        PREEMPTION_BESIDE: {
            EventKind.POD_ADD | EventKind.POD_UPDATE: NarrowHint(_stays_beside, _reach_beside)
        },
        BESIDE_CLAIMS: {EventKind.POD_ADD: NarrowHint(_had_a_claim, _reach_of_claims)},
        WITHIN_MIN: {
            EventKind.LOAN: NarrowHint(_may_reclaim),
            EventKind.POD_ADD: NarrowHint(_above_min_since, leave_the_min),
        },
        BESIDE_COVERED: {
            EventKind.POD_ADD: NarrowHint(_covers_fewer, _own_above_min),
            EventKind.POD_DELETE | EventKind.POD_LEAVING: NarrowHint(_covers_more, _own_quota_of),
        },
    }


def searched_for(state: ClusterState, pod: Pod) -> frozenset[str]:
    """Names under which a pod waits for which preemption found no victims."""
    found = {PREEMPTION, PREEMPTION_BESIDE} if looks_around(pod) else {PREEMPTION}
    if state.nominations.neighbours.rules:
        found.add(BESIDE_CLAIMS)
    if group_of(pod) is not None or may_reclaim(state, pod):
        # A group is evaluated as a whole.
        found.add(WITHIN_MIN)
    if spares_some(state, pod):
        found.add(BESIDE_COVERED)
    if may_be_short_later(state, pod):
        found.add(FAIR_MOVE_LATER)
    return frozenset(found)


def _reach_of_victims(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods that may find victims after an event."""
    what, pod = event.what, event.pod
    if what.meets(EventKind.POD_DELETE) and pod is not None:
        return EVERYBODY if _was_torn(state, pod) else NOMINATED
    if what.meets(EventKind.POD_ADD) and pod is not None:
        return _reach_of_one_more(state, pod)
    if what.meets(EventKind.GROUP) and (event.group or pod is not None):
        key = event.group or (ref.key if pod is not None and (ref := group_of(pod)) is not None else "")
        # A pod without a node cannot be a victim.
        return EVERYBODY if take_census(state, key).allocated else NOBODY
    return NOMINATED if what.meets(_NODE) else EVERYBODY


def _reach_of_one_more(state: ClusterState, came: Pod) -> Reach:
    """Pods that may find other victims after a pod was added: all, if a gang can now lose a member."""
    if _leaves_one_to_spare(state, came):
        return EVERYBODY
    # A pod that this scheduler placed was placed with regard to the waiting pods.
    return NOMINATED if came.assigned else NOBODY


def importance_of(state: ClusterState, pod: Pod) -> int:
    """What counts against a pod that holds a node, or has one nominated, where priorities decide."""
    placement, nomination = state.placed.get(pod.uid), state.nominations.get(pod.uid)
    if placement is not None:
        return int(state.table.priority[placement.row])
    return nomination.priority if nomination is not None else pod.priority


def _own_quota(state: ClusterState, event: ClusterEvent) -> Reach:
    return Reach(namespaces=frozenset({event.namespace})) if event.namespace else EVERYBODY


def _is_overtaken(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a less important pod of the pod's quota evicts others, or has started beside nominated pods; or
    another one evicts others, while the pod stays within the min of its quota: one that borrows, or one
    without a quota that is no more important.
    """
    if event.pod is None or pod.preemption_policy == NEVER:
        return False
    if event.namespace:
        return pod.namespace == event.namespace and importance_of(state, event.pod) < pod.priority
    quota, borrows = state.ledger.quota_of(pod.namespace), state.ledger.quota_of(event.pod.namespace)
    return (
        quota is not None
        and quota is not borrows
        and (borrows is not None or importance_of(state, event.pod) <= pod.priority)
        and any(within_min(state.ledger, quota, asked) for asked in state.nodes.flavors.charges(pod))
    )


def _reach_beside(state: ClusterState, event: ClusterEvent) -> Reach:
    if event.pod is None or (event.what.meets(EventKind.POD_UPDATE) and event.old_pod is None):
        return EVERYBODY
    return beside(event)


def _stays_beside(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod that was added or changed is, or was, one that the pod's affinity or spread counts."""
    forms = forms_of(event)
    if not forms or (event.what.meets(EventKind.POD_UPDATE) and event.old_pod is None):
        return True
    wanted = pod.pod_affinity.required
    if wanted and any(all_select(state, pod, wanted, form) for form in forms):
        return True
    return any(
        counted(pod, constraint)._replace(live=False).takes(form)
        for constraint in hard_constraints(pod)
        for form in forms
    )


def _reach_of_claims(state: ClusterState, event: ClusterEvent) -> Reach:
    return EVERYBODY if event.pod is not None and event.pod.spread else NOBODY


def _had_a_claim(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod that has started may have claimed a place in a domain before."""
    return event.pod is not None and bool(event.pod.spread)


def _own_above_min(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of the quota of an added pod, if it uses more than its min of something that the pod uses."""
    came = event.pod
    quota = state.ledger.quota_of(came.namespace) if came is not None else None
    if came is None or quota is None:
        return NOBODY
    over = policy.borrowed(state.ledger, quota, after_leaving=True)
    if over.keys().isdisjoint(state.charge_of(came)):
        return NOBODY
    return Reach(namespaces=frozenset({came.namespace}))


def _covers_fewer(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether an added pod of the own quota is more important than others, which min may cover no more."""
    came = event.pod
    placement = state.placed.get(came.uid) if came is not None else None
    if came is None or placement is None or came.namespace != pod.namespace:
        return False
    table = state.table
    lowest = table.levels.lowest_of(table.namespaces.find(pod.namespace))
    return lowest < min(int(table.priority[placement.row]), pod.priority)


def _own_quota_of(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of the quota of the event's pod."""
    gone = event.pod
    if gone is None:
        return EVERYBODY
    governed = state.ledger.quota_of(gone.namespace) is not None
    return Reach(namespaces=frozenset({gone.namespace})) if governed else NOBODY


def _covers_more(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod of the own quota makes room in the min, while less important ones still hold nodes."""
    own = event.pod is None or event.pod.namespace == pod.namespace
    return own and may_evict_its_own(state, pod)


def _may_find_victims(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    what, other = event.what, event.pod
    if what.meets(EventKind.POD_DELETE) and other is not None:
        # By far the most common event.
        return pod.preemption_policy != NEVER and (_waited_for(state, pod, other) or _was_torn(state, other))
    nomination = state.nominations.get(pod.uid)
    if what.meets(_NODE):
        # Its node may have become unusable, so that it need not wait for pods there.
        node = event.node or event.old_node
        return nomination is not None and (node is None or node.name == nomination.node)
    if pod.preemption_policy == NEVER:
        return False
    if what.meets(EventKind.POD_ADD) and other is not None:
        if nomination is not None and other.assigned and not awaited(state, pod):
            # It was bound elsewhere, without regard to the waiting pods.
            return True
        return _may_evict_a_sibling(state, pod, other)
    return True


def _leaves_kept_node(state: ClusterState, nomination: Nomination, leaves: Pod) -> bool:
    """Whether a leaving pod is on a node that is kept for a gang, which may then have all of the room."""
    placement = state.placed.get(leaves.uid)
    there = placement is not None and state.nodes.names[placement.slot] == nomination.node
    return nomination.kept and there


def _waited_for(state: ClusterState, pod: Pod, gone: Pod) -> bool:
    """Whether a nominated pod waited for the deleted pod, or has no pod left to wait for."""
    nomination = state.nominations.get(pod.uid)
    if nomination is None:
        return False
    return gone.uid in nomination.victims or not (nomination.kept or awaited(state, pod))


def _reach_of_leaving(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods that may start once a leaving pod is gone, though its node has no room for them."""
    leaves = event.pod
    if leaves is None or leaves.uid not in state.placed:
        return EVERYBODY
    return EVERYBODY if leaves.host_ports or leaves.pod_anti_affinity.required else beside(event)


def _room_of_leaving(state: ClusterState, event: ClusterEvent) -> Room | None:
    """What is free on the node of a leaving pod, with what it leaves and what evictions may add."""
    placement = state.placed.get(event.pod.uid) if event.pod is not None else None
    if placement is None:
        return None
    nodes, slot = state.nodes, placement.slot
    free = nodes.allocatable[:, slot] - nodes.requested[:, slot]
    return Room(free, slot, partial(evictable_requests, state, slot))


def _may_wait_for(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod may fit once a leaving pod is gone, with further evictions: ports, its rules about other
    pods or those of the leaving one, or room. Whom quotas refuse waits for it under names of their own.
    """
    leaves, nomination = event.pod, state.nominations.get(pod.uid)
    if pod.preemption_policy == NEVER:
        return False
    placement = state.placed.get(leaves.uid) if leaves is not None else None
    if leaves is None or placement is None:
        return True
    if nomination is not None and not _leaves_kept_node(state, nomination, leaves):
        return False
    if (pod.host_ports and leaves.host_ports) or _keeps_apart(state, leaves, pod):
        return True
    if _keeps_apart(state, pod, leaves) or _stays_beside(state, pod, event):
        return True
    nodes, slot, vector = state.nodes, placement.slot, state.vector(pod)
    width = len(vector)
    free = nodes.allocatable[:width, slot] - nodes.requested[:width, slot]
    free += freed_by_victims(state, pod, slot)[:width]
    return bool(((vector <= free) | (vector == 0)).all())


def _keeps_apart(state: ClusterState, one: Pod, other: Pod) -> bool:
    """Whether required anti-affinity of a pod selects another one."""
    return any(selected_by(state, one, term).takes(other) for term in one.pod_anti_affinity.required)


def _was_torn(state: ClusterState, gone: Pod) -> bool:
    """Whether a gang has just fallen below minMembers: its members are now evicted one by one."""
    gang = state.gangs.of(gone)
    return gang is not None and take_census(state, gang.key).allocated == gang.min_members - 1


def _leaves_one_to_spare(state: ClusterState, came: Pod) -> bool:
    """Whether a gang may have more members than it needs, so that single members can be evicted.

    Waiting members count as well. This may wake pods needlessly, but avoids a census at every event.
    """
    gang = state.gangs.of(came)
    return gang is not None and len(state.gangs.members(gang.key)) > gang.min_members


def _may_evict_a_sibling(state: ClusterState, pod: Pod, came: Pod) -> bool:
    """Whether a pod may now evict single members of a gang that it had to evict as a whole before."""
    ref = group_of(came)
    if ref is None or not _leaves_one_to_spare(state, came):
        return False
    quota = state.ledger.quota_of(pod.namespace)
    if quota is not None:
        beside = own_nominated(state, pod) if len(state.nominations) else {}
        if came.namespace != pod.namespace:
            # A reclaim from other quotas does not look at priorities.
            reclaims = policy.may_reclaim(state.ledger, quota, charged(pod.requests), beside)
            return reclaims or may_move_fairly(state, pod)
        if all(
            _whole_within_min(state, pod, quota, asked, beside) for asked in state.nodes.flavors.charges(pod)
        ):
            return False
    return state.gangs.lowest_priority(ref.key) < pod.priority


def _may_reclaim(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether another quota began to borrow, and the pod may reclaim from it."""
    quota = state.ledger.quota_of(pod.namespace)
    if quota is None or quota.namespace == event.namespace or pod.preemption_policy == NEVER:
        return False
    charge = charged(pod.requests)
    if not policy.may_reclaim(state.ledger, quota, charge):
        return False
    return policy.may_reclaim(state.ledger, quota, charge, own_nominated(state, pod))


def _above_min_since(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether an added pod, with those that came with it, took the pod above the min of its quota.

    Before, its victims were pods of other quotas; now they are less important pods of its own quota. A gang
    counts as a whole. With flavors it is enough that this is so on the nodes of one of them.
    """
    quota, came = state.ledger.quota_of(pod.namespace), event.pod
    if quota is None or came is None or came.namespace != pod.namespace or pod.preemption_policy == NEVER:
        return False
    beside = dict(own_nominated(state, pod)) if len(state.nominations) else dict[str, int]()
    before = dict(beside)
    shift(before, moved_at_once(state, event), -1)
    return any(
        not _whole_within_min(state, pod, quota, asked, beside)
        and within_min(state.ledger, quota, asked, before)
        for asked in state.nodes.flavors.charges(pod)
    )


def _whole_within_min(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, beside: ResourceList
) -> bool:
    """Whether a pod stays within the min of its quota; for a gang, minMembers pods of its size. `asked` is
    what the pod is charged.

    This overestimates a gang whose members hold nodes already or request less: it may wake pods needlessly.
    """
    gang = state.gangs.of(pod)
    number = gang.min_members if gang is not None else 1
    charge = {name: number * value for name, value in charged(asked).items()}
    return charge_within_min(state.ledger, quota, charge, beside)
