"""May a pod preempt now, or does it still wait for what it evicted before (capacity reference, rule 13)?"""

from __future__ import annotations

from scheduler_core.framework.matching import match_required
from scheduler_core.framework.taints import untolerated
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import UNSCHEDULABLE_TAINT
from scheduler_core.model.pod import NEVER, Pod
from scheduler_core.state.cluster import ClusterState


def not_eligible(state: ClusterState, pod: Pod) -> str:
    """Why the pod may not preempt now, or an empty text."""
    if pod.preemption_policy == NEVER:
        return "not eligible due to preemptionPolicy=Never"
    there = awaited(state, pod)
    if there:
        return f"not eligible while {len(there)} victims of an earlier preemption are terminating"
    return ""


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
    return {uid for uid in expected if uid in state.placed and state.table.going[state.placed[uid].row]}


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
