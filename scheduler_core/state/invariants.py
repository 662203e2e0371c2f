"""What must always be true of the cluster's state, looked at from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler_core.state.cluster import ClusterState
    from scheduler_core.state.placement import Placement


def broken_invariants(state: ClusterState) -> list[str]:
    """Every broken invariant in words (design, section 6, items 1-3); empty if all hold."""
    problems = [*state.nodes.check(), *state.ledger.check(), *state.unplaced.check()]
    for uid, placement in state.placed.items():
        problems += _misplaced(state, uid, placement)
    if int(state.table.alive.sum()) != len(state.placed):
        problems.append(f"{int(state.table.alive.sum())} rows alive, {len(state.placed)} placements")
    on_nodes = sum(len(pods) for pods in state.nodes.pods)
    if on_nodes != len(state.placed):
        problems.append(f"{on_nodes} pods on nodes, {len(state.placed)} placements")
    near = state.neighbours.check((item.pod, item.slot) for item in state.placed.values())
    kept = (*state.table.check(state.nodes.size), *state.nominations.check(), *state.load.check())
    return [*problems, *near, *kept]


def _misplaced(state: ClusterState, uid: str, placement: Placement) -> list[str]:
    """Where ledger, nodes and the table of placed pods disagree on one pod."""
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
    going = bool(state.table.going[row])
    if going != state.ledger.is_leaving(pod.namespace, pod.uid):
        problems.append(f"pod {pod.key}: going is {going}, the ledger disagrees")
    return problems
