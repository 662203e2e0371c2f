"""What can stand between a waiting pod and a node, and which events can take it out of the way.

The list is closed: a refusal is one of these obstacles, and a pod waits for the events of the obstacles that
it met. So whoever adds a kind of event, or a reason to refuse, has one place to look at; that nothing is
missing is what the property test of restarts proves.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from scheduler_core.framework.hints import (
    EVERYBODY,
    NOBODY,
    NOMINATED,
    Hint,
    NarrowHint,
    Reach,
    StandingHint,
)
from scheduler_core.framework.pod_terms import looks_around
from scheduler_core.framework.preemption.eligibility import awaited
from scheduler_core.framework.preemption.nominated_sums import own_nominated
from scheduler_core.framework.widest_victims import freed_by_victims, is_within_min
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.gang import group_of
from scheduler_core.model.pod import NEVER, Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import charge_within_min, within_min
from scheduler_core.state.affinity_index import carries_terms
from scheduler_core.state.census import take_census
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

_NODE: Final = Happened.NODE_ADD | Happened.NODE_DELETE | Happened.node_update()


class Obstacle(Enum):
    """An obstacle; its value are the events that can take it away.

    KIND: no node is of the kind that the pod asks for. ROOM: resources or ports of nodes are taken.
    NEIGHBOURS: rules between pods. VOLUMES, LOAD: what they are. GROUP: the group is not there, or too few
    members are. TOPOLOGY: no placement on the tree meets the constraints. NOMINATED: what is free is kept for
    nominated pods. VICTIMS: nobody may be evicted, or it does not help. Quotas: see `quota_obstacles`.
    """

    KIND = Happened.NODE_ADD | Happened.NODE_LABELS | Happened.NODE_TAINTS
    ROOM = Happened.NODE_ADD | Happened.NODE_ALLOCATABLE | Happened.POD_DELETE
    NEIGHBOURS = _NODE | Happened.POD_ADD | Happened.POD_UPDATE | Happened.POD_DELETE | Happened.OTHER
    VOLUMES = Happened.NODE_ADD | Happened.NODE_LABELS | Happened.VOLUME | Happened.POD_DELETE
    LOAD = (
        Happened.NODE_METRIC
        | Happened.NODE_ADD
        | Happened.NODE_LABELS
        | Happened.NODE_ALLOCATABLE
        | Happened.POD_DELETE
    )
    GROUP = (
        Happened.GROUP | Happened.POD_ADD | Happened.POD_UPDATE | Happened.POD_DELETE | Happened.POD_LEAVING
    )
    TOPOLOGY = _NODE | Happened.TOPOLOGY | Happened.GROUP
    NOMINATED = Happened.anything()
    VICTIMS = (
        _NODE
        | Happened.POD_ADD
        | Happened.QUOTA
        | Happened.GROUP
        | Happened.NOMINATION
        | Happened.POD_DELETE
        | Happened.POD_LEAVING
    )

    def hints(
        self, narrow: Hint | None = None, freed: StandingHint | None = None
    ) -> dict[Happened, Hint | None]:
        """The hints of a plugin whose refusals are this obstacle; `narrow` may leave out single events.

        `freed` says of a pod that went whether what it left still suffices.
        """
        if freed is None:
            return {self.value: narrow}
        return {self.value & ~Happened.POD_DELETE: narrow, Happened.POD_DELETE: freed}


NOMINATED_PODS: Final = "NominatedPods"
PREEMPTION: Final = "Preemption"
PREEMPTION_BESIDE: Final = "PreemptionBesideOthers"
WITHIN_MIN: Final = "PreemptionWithinMin"


class NominatedPods:
    """Stands for nominated pods among those that refuse a pod: what is free is kept for them."""

    name = NOMINATED_PODS

    def hints(self) -> Mapping[Happened, Hint | None]:
        """Whatever happens may free it, or make room elsewhere."""
        return Obstacle.NOMINATED.hints()


class Preemption:
    """Stands for the search for victims among those that refuse a pod: it found none that help."""

    name = PREEMPTION

    def hints(self) -> Mapping[Happened, Hint | None]:
        """What makes others victims, or frees the pod to look for some."""
        return Obstacle.VICTIMS.hints(NarrowHint(_may_find_victims, _reach_of_victims))


class PreemptionBeside:
    """The same for pods that look at others: one that had to stay beside them may be another now."""

    name = PREEMPTION_BESIDE

    def hints(self) -> Mapping[Happened, Hint | None]:
        """Pods that came or changed."""
        return {Happened.POD_ADD | Happened.POD_UPDATE: None}


class WithinMin:
    """The same for a pod within the min of its quota, which looks for victims in other quotas."""

    name = WITHIN_MIN

    def hints(self) -> Mapping[Happened, Hint | None]:
        """Another quota borrows more; or a pod of its own came, so that it looks for victims there now."""
        return {
            Happened.LOAN: NarrowHint(_may_reclaim),
            Happened.POD_ADD: NarrowHint(_above_min_since, _own_namespace),
        }


def searched_for(state: ClusterState, pod: Pod) -> frozenset[str]:
    """What stands for the search for victims of a pod that found none."""
    found = {PREEMPTION, PREEMPTION_BESIDE} if looks_around(pod) else {PREEMPTION}
    if group_of(pod) is not None or is_within_min(state, pod):
        # A group is judged as a whole.
        found.add(WITHIN_MIN)
    return frozenset(found)


def _reach_of_victims(state: ClusterState, event: ClusterEvent) -> Reach:
    """Whom an event may let find victims who found none."""
    what, pod = event.what, event.pod
    if what.meets(Happened.POD_DELETE) and pod is not None:
        return EVERYBODY if _was_torn(state, pod) else NOMINATED
    if what.meets(Happened.POD_ADD) and pod is not None:
        return _reach_of_one_more(state, pod)
    if what.meets(Happened.GROUP) and (event.group or pod is not None):
        key = event.group or (ref.key if pod is not None and (ref := group_of(pod)) is not None else "")
        # Who has no node is nobody's victim.
        return EVERYBODY if take_census(state, key).allocated else NOBODY
    return NOMINATED if what.meets(_NODE) else EVERYBODY


def _reach_of_one_more(state: ClusterState, came: Pod) -> Reach:
    """Whom a pod that came may let find other victims: all, where a gang can spare a member now."""
    if _leaves_one_to_spare(state, came):
        return EVERYBODY
    # What we have placed ourselves had regard to those who wait.
    return NOMINATED if came.assigned else NOBODY


def _own_namespace(state: ClusterState, event: ClusterEvent) -> Reach:
    """Whom a pod that came may have taken the rest of the min: those of its quota, where there was some."""
    came = event.pod
    ledger, quota = state.ledger, state.ledger.quota_of(came.namespace) if came is not None else None
    if came is None or quota is None:
        return NOBODY
    used = ledger.used(came.namespace)
    if any(
        used.get(name, 0) - amount < quota.min.get(name, 0)
        for name, amount in charged(came.requests).items()
        if amount > 0 and (name in ledger.total_min or name in quota.max)
    ):
        return Reach(namespaces=frozenset({came.namespace}))
    return NOBODY


def _may_find_victims(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    what, other = event.what, event.pod
    if what.meets(Happened.POD_DELETE) and other is not None:
        # The commonest by far, so it is asked for first.
        return pod.preemption_policy != NEVER and (_waited_for(state, pod, other) or _was_torn(state, other))
    nomination = state.nominations.get(pod.uid)
    if what.meets(_NODE):
        # Its node may be of no use any more, so that the end of others there need not be awaited.
        node = event.node or event.old_node
        return nomination is not None and (node is None or node.name == nomination.node)
    if pod.preemption_policy == NEVER:
        return False
    if what.meets(Happened.POD_ADD) and other is not None:
        if nomination is not None and other.assigned and not awaited(state, pod):
            # It came with a node of its own, without regard to those who wait.
            return True
        return _may_evict_a_sibling(state, pod, other)
    if what.meets(Happened.POD_LEAVING) and other is not None:
        return nomination is None and _may_wait_for(state, pod, other)
    return True


def _waited_for(state: ClusterState, pod: Pod, gone: Pod) -> bool:
    """Whether a nominated pod waited for the end of another one, or now waits for nobody any more."""
    nomination = state.nominations.get(pod.uid)
    if nomination is None:
        return False
    return gone.uid in nomination.victims or not (nomination.kept or awaited(state, pod))


def _may_wait_for(state: ClusterState, pod: Pod, leaves: Pod) -> bool:
    """Whether the end of a pod may let another one in, with evictions beside: its quota, ports, or room."""
    quota_of = state.ledger.quota_of
    if quota_of(pod.namespace) is not None and quota_of(leaves.namespace) is not None:
        return True
    if (pod.host_ports and leaves.host_ports) or carries_terms(pod) or carries_terms(leaves) or pod.spread:
        return True
    placement = state.placed.get(leaves.uid)
    if placement is None:
        return True
    nodes, slot, vector = state.nodes, placement.slot, state.vector(pod)
    width = len(vector)
    free = nodes.allocatable[:width, slot] - nodes.requested[:width, slot]
    free += freed_by_victims(state, pod, slot)[:width]
    return bool(((vector <= free) | (vector == 0)).all())


def _was_torn(state: ClusterState, gone: Pod) -> bool:
    """Whether a gang has just fallen below minMembers: its members may go one by one now."""
    gang = state.gangs.of(gone)
    return gang is not None and take_census(state, gang.key).allocated == gang.min_members - 1


def _leaves_one_to_spare(state: ClusterState, came: Pod) -> bool:
    """Whether a gang may have more members than it needs with one that came: then single ones may go.

    Who waits counts as well here. That wakes once too often, and does not count a large gang at every event.
    """
    gang = state.gangs.of(came)
    return gang is not None and len(state.gangs.members(gang.key)) > gang.min_members


def _may_evict_a_sibling(state: ClusterState, pod: Pod, came: Pod) -> bool:
    """Whether a pod may evict single members of a gang that it had to evict as a whole before one came."""
    ref = group_of(came)
    if ref is None or not _leaves_one_to_spare(state, came):
        return False
    quota = state.ledger.quota_of(pod.namespace)
    if quota is not None:
        beside = own_nominated(state, pod) if len(state.nominations) else {}
        if came.namespace != pod.namespace:
            # Within its min it takes from other quotas, whatever the priority, and else only from its own.
            return within_min(state.ledger, quota, pod.requests, beside)
        if _whole_within_min(state, pod, quota, beside):
            return False
    return state.gangs.lowest_priority(ref.key) < pod.priority


def _may_reclaim(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Another quota began to borrow, and the pod would stay within the min of its own."""
    quota = state.ledger.quota_of(pod.namespace)
    if quota is None or quota.namespace == event.namespace or pod.preemption_policy == NEVER:
        return False
    if not within_min(state.ledger, quota, pod.requests):
        return False
    return within_min(state.ledger, quota, pod.requests, own_nominated(state, pod))


def _above_min_since(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod would stay within the min of its quota, had another one not come.

    It looked for victims in other quotas then, and looks for less important pods of its own quota now: alone,
    or its gang as a whole.
    """
    quota, came = state.ledger.quota_of(pod.namespace), event.pod
    if quota is None or came is None or came.namespace != pod.namespace or pod.preemption_policy == NEVER:
        return False
    beside = own_nominated(state, pod) if len(state.nominations) else {}
    if _whole_within_min(state, pod, quota, beside):
        return False
    shift(beside, charged(came.requests), -1)
    return within_min(state.ledger, quota, pod.requests, beside)


def _whole_within_min(state: ClusterState, pod: Pod, quota: ElasticQuota, beside: ResourceList) -> bool:
    """Whether a pod stays within the min of its quota; of a gang, as many like it as start together.

    That is too many where some of them hold nodes already, or ask for less, which wakes once too often.
    """
    gang = state.gangs.of(pod)
    number = gang.min_members if gang is not None else 1
    charge = {name: number * value for name, value in charged(pod.requests).items()}
    return charge_within_min(state.ledger, quota, charge, beside)
