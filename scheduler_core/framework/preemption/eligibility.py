"""Eligibility: decides whether a pod may preempt now, or still waits for earlier victims to terminate.

Corresponds to `PodEligibleToPreemptOthers` of kube-scheduler. A nominated pod waits as long as its node is
usable and has room once its victims are gone. Members of a gang that were nominated together wait as long as
this holds for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.matching import match_required
from scheduler_core.framework.nominations.first_of_group import first_after
from scheduler_core.framework.nominations.nominated import requests_ahead
from scheduler_core.framework.nominations.nominated_sums import (
    nominated_by_quota,
    nominated_requests,
    siblings_nominated,
)
from scheduler_core.framework.nominations.spread_claims import evened_out_by, who_claims
from scheduler_core.framework.nominations.waiting_nominations import on_their_way_out
from scheduler_core.framework.status import unschedulable
from scheduler_core.framework.taints import untolerated
from scheduler_core.framework.view import NodeView
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.node import UNSCHEDULABLE_TAINT
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.quota.policy import admit
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nodes.rules import ALL_RULES
from scheduler_core.state.nomination import Nomination


def refused(reason: str) -> PostFilterResult:
    """A PostFilter result without preemption, with the reason."""
    return PostFilterResult(unschedulable(reason), message=f"preemption: {reason}.")


def must_wait(sentence: str) -> PostFilterResult:
    """A PostFilter result without preemption, with a sentence that says what the pod waits for."""
    return PostFilterResult(unschedulable(sentence), message=sentence)


def not_eligible(state: ClusterState, pod: Pod) -> str:
    """The reason why the pod may not preempt now, as a sentence; empty if it may."""
    if pod.preemption_policy == NEVER:
        return "preemption: not eligible due to preemptionPolicy=Never."
    if not (found := awaited(state, pod)):
        return ""
    if found.isdisjoint(state.placed):
        return "waiting for nominated pods to start first, as spread constraints count them."
    return waits_on(state.nominations.node_of(pod.uid))


def waits_on(node: str) -> str:
    """The message for a pod that waits for terminating pods, its own victims or others."""
    return f"waiting for pods to end on node {node}."


def gang_not_eligible(state: ClusterState, pods: Sequence[Pod]) -> bool:
    """Whether a gang may not preempt now: one member never does, or members still wait for victims."""
    return any(pod.preemption_policy == NEVER for pod in pods) or gang_waits(state, pods)


def gang_waits(state: ClusterState, pods: Iterable[Pod]) -> bool:
    """Whether members of a gang wait for leaving pods, and all of their nominations will do."""
    found = [(pod, item) for pod in pods if (item := state.nominations.get(pod.uid)) is not None]
    return any(on_their_way_out(state, item) for _, item in found) and all(
        will_do(state, item) for _, item in found
    )


def awaited(state: ClusterState, pod: Pod) -> set[str]:
    """Leaving pods (uids) that a nominated pod waits for; none if its node became unusable.

    Without pods that it evicted itself, these are pods after whose end it will be the first that its required
    affinity selects; or nominated pods, after whose start its spread constraints allow its node, or which go
    first and claim its place.
    """
    nomination = state.nominations.get(pod.uid)
    if nomination is None:
        return set()
    found = on_their_way_out(state, nomination)
    if not found and not (nomination.kept or nomination.group):
        found = first_after(state, nomination)
        if not found and pod.spread:
            found = evened_out_by(state, nomination)
        found = found or who_claims(state, nomination)
    return found if found and will_do(state, nomination) else set()


def leaving_for(state: ClusterState, pods: Sequence[Pod]) -> frozenset[str]:
    """Leaving pods (uids) that were evicted for one of these pods, or for a member of its gang."""
    groups = {ref for pod in pods if (ref := group_of(pod)) is not None}
    every = {pod.uid: pod for pod in pods}
    for ref in groups:
        every |= state.gangs.members(ref.key)
    waiting = {*map(str, groups), *(pod.key for pod in every.values()), *every}
    waiting |= {gang.uid for ref in groups if (gang := state.gangs.gangs.get(ref.key)) is not None}
    evicted = state.table.evicted_for()
    found = {uid for name in waiting & evicted.keys() for uid in evicted[name]}
    for uid in every:
        nomination = state.nominations.get(uid)
        if nomination is not None and nomination.victims:
            found |= on_their_way_out(state, nomination)
    return frozenset(found)


def will_do(state: ClusterState, nomination: Nomination) -> bool:
    """Whether a nominated pod fits its node and its quota once all leaving pods are gone.

    Members of a gang must fit at once.
    """
    pod, slot = nomination.pod, state.nodes.slot(nomination.node)
    if slot is None or not usable(state, pod, slot):
        return False
    others = _taken_beside(state, nomination)
    if not room_after_leaving(state, _asked(state, nomination), slot, others=others):
        return False
    own, total = nominated_requests(state, pod, beside=siblings_nominated(state, pod))
    namespace, requests = pod.namespace, pod.requests
    refusal = admit(
        state.ledger,
        namespace,
        requests,
        nominated=own,
        nominated_total=total,
        nominated_by=nominated_by_quota(state, pod),
        after_leaving=True,
    )
    return refusal is None


def _asked(state: ClusterState, nomination: Nomination) -> Int64:
    """int64 [R]: all that a nominated pod requests.

    Less room is kept for a gang beside pods that will have ended by its start, but these are not gone yet.
    """
    return state.vector(nomination.pod) if nomination.kept else nomination.vector


def _taken_beside(state: ClusterState, nomination: Nomination) -> list[Int64]:
    """int64 [R] each: requests of siblings and of pods with precedence on the nominated node."""
    found = requests_ahead(state, nomination)
    if nomination.group:
        there = state.nominations.on_node(nomination.node, nomination.pod)
        found += [_asked(state, item) for item in there if item.group == nomination.group]
    return found


def room_after_leaving(
    state: ClusterState, vector: Int64, slot: int, *, others: Iterable[Int64] = ()
) -> bool:
    """Whether a node has room for requests (int64 [R]) once its leaving pods are gone.

    `others` (int64 [R] each) are requests that take room there as well.
    """
    nodes, placed, leaving = state.nodes, state.placed, state.table.leaving
    width = len(vector)
    free = nodes.allocatable[:width, slot] - nodes.requested[:width, slot]
    for uid in nodes.pods[slot]:
        item = placed[uid]
        if leaving[item.row]:
            free[: len(item.vector)] += item.vector[:width]
    for other in others:
        free[: len(other)] -= other[:width]
    return not ((vector > free) & (vector > 0)).any()


def lost_its_node(state: ClusterState, pod: Pod) -> bool:
    """Whether the nominated node of a pod is no longer usable."""
    node = state.nominations.node_of(pod.uid)
    slot = state.nodes.slot(node) if node else None
    return bool(node) and (slot is None or not usable(state, pod, slot))


def usable(state: ClusterState, pod: Pod, slot: int) -> bool:
    """Whether a node exists and can take the pod by taints, cordon and affinity, whatever runs on it.

    A rule counts only if the pod's profile has the filter: else the nomination would be cleared again.
    """
    nodes = state.nodes
    rules = nodes.rules.get(pod.scheduler_name, ALL_RULES)
    if not nodes.alive[slot]:
        return False
    # A cordoned node has its taint.
    taints = nodes.taint_sets.values[nodes.taint_set[slot]] if rules.taints else ()
    if rules.cordons and nodes.unschedulable[slot]:
        taints = (*taints, UNSCHEDULABLE_TAINT)
    if untolerated(pod.tolerations, taints) is not None:
        return False
    node = NodeView(nodes, slice(slot, slot + 1))
    if rules.affinity and not match_required(node, pod.node_selector, pod.node_affinity)[0]:
        return False
    return bool(match_required(node, (), rules.added)[0])
