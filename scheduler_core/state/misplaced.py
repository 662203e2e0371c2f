"""Contradictions about one placed pod, between the parts of the cluster state that count it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler_core.state.departing import mismarked
from scheduler_core.state.placement import Placement

if TYPE_CHECKING:
    from scheduler_core.state.cluster import ClusterState


def misplaced(state: ClusterState, uid: str, placement: Placement) -> list[str]:
    """What the ledger, the nodes and the table of placed pods say otherwise about a pod, in words."""
    problems = []
    pod, row, slot = placement.pod, placement.row, placement.slot
    if not state.ledger.is_charged(pod.namespace, uid):
        problems.append(f"pod {pod.key} is placed but not charged")
    if state.nodes.pods[slot].get(uid) is not pod:
        problems.append(f"pod {pod.key} is not on node {state.nodes.names[slot]}")
    if state.table.pods[row] is not pod or not state.table.alive[row]:
        problems.append(f"pod {pod.key} has no row in the table of placed pods")
    if state.table.slot[row] != slot:
        problems.append(f"pod {pod.key} has the wrong slot in the table of placed pods")
    return [*problems, *mismarked(state, placement)]
