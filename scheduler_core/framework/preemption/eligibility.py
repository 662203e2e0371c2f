"""May a pod preempt now, or does it still wait for what it evicted before (capacity reference, rule 13)?

It waits as long as waiting will help: its node is usable, and the room will do once its victims are gone.
"""

from __future__ import annotations

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.matching import match_required
from scheduler_core.framework.preemption.nominated import nominated_requests
from scheduler_core.framework.taints import untolerated
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import UNSCHEDULABLE_TAINT
from scheduler_core.model.pod import NEVER, Pod
from scheduler_core.quota.policy import admit
from scheduler_core.state.cluster import ClusterState


def not_eligible(state: ClusterState, pod: Pod) -> str:
    """Why the pod may not preempt now, as a sentence, or an empty text."""
    if pod.preemption_policy == NEVER:
        return "preemption: not eligible due to preemptionPolicy=Never."
    return waits_on(state.nominations.node_of(pod.uid)) if awaited(state, pod) else ""


def waits_on(node: str) -> str:
    """What is said of a pod whose node gets free by itself, whoever asked the pods there to go."""
    return f"waiting for pods to end on node {node}."


def awaited(state: ClusterState, pod: Pod) -> set[str]:
    """Pods (uids) whose end a nominated pod waits for; none if its node became unusable for it."""
    nomination = state.nominations.get(pod.uid)
    if nomination is None:
        return set()
    slot = state.nodes.slot(nomination.node)
    if slot is None or not usable(state, pod, slot):
        return set()
    # After a restart the victims are not known by name; those on the node can still be seen going.
    expected = nomination.victims or state.nodes.pods[slot]
    there = {uid for uid in expected if uid in state.placed and state.table.going[state.placed[uid].row]}
    return there if there and _will_fit(state, pod, nomination.vector, slot) else set()


def _will_fit(state: ClusterState, pod: Pod, vector: Int64, slot: int) -> bool:
    """Whether node and quota will have room for a pod once all that leaves is gone."""
    if not room_after_leaving(state, vector, slot):
        return False
    own, total = nominated_requests(state, pod)
    namespace, requests = pod.namespace, pod.requests
    refusal = admit(
        state.ledger, namespace, requests, nominated=own, nominated_total=total, after_leaving=True
    )
    return refusal is None


def room_after_leaving(
    state: ClusterState, vector: Int64, slot: int, *, evicting_below: int | None = None
) -> bool:
    """Whether a node has room for requests (int64 [R]) once all that leaves it is gone.

    With `evicting_below` also once its pods of lower priority are.
    """
    nodes, placed, going = state.nodes, state.placed, state.table.going
    width = len(vector)
    free = nodes.allocatable[:width, slot] - nodes.requested[:width, slot]
    for uid in nodes.pods[slot]:
        item = placed[uid]
        lower = evicting_below is not None and item.pod.priority < evicting_below
        if going[item.row] or lower:
            free[: len(item.vector)] += item.vector[:width]
    return not ((vector > free) & (vector > 0)).any()


def lost_its_node(state: ClusterState, pod: Pod) -> bool:
    """Whether the node that a pod was nominated for is of no use to it any more."""
    node = state.nominations.node_of(pod.uid)
    slot = state.nodes.slot(node) if node else None
    return bool(node) and (slot is None or not usable(state, pod, slot))


def usable(state: ClusterState, pod: Pod, slot: int) -> bool:
    """Whether a node is there and of a kind that can take the pod, whatever runs on it."""
    nodes = state.nodes
    if not nodes.alive[slot]:
        return False
    if nodes.unschedulable[slot] and not any(t.tolerates(UNSCHEDULABLE_TAINT) for t in pod.tolerations):
        return False
    if untolerated(pod.tolerations, nodes.taint_sets.values[nodes.taint_set[slot]]) is not None:
        return False
    return bool(
        match_required(NodeView(nodes, slice(slot, slot + 1)), pod.node_selector, pod.node_affinity)[0]
    )
