"""Pods that stay where they are while what they ask for, or how much of that is counted, becomes another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler_core.model.pod import Pod
from scheduler_core.state.placement import Placement

if TYPE_CHECKING:
    from scheduler_core.state.cluster import ClusterState


def recount(state: ClusterState, placement: Placement, pod: Pod) -> None:
    """Count a newer form of a placed pod in the place of the older one, on the same node."""
    going, start = bool(state.table.going[placement.row]), float(state.table.start[placement.row])
    state.lift(pod.uid)
    placement.pod, placement.vector = pod, state.vector(pod)
    state.put_back(placement, going, start)


def count_anew(state: ClusterState, resources: frozenset[str]) -> None:
    """Nodes have resources that none had before: placed pods may have asked for them all the while."""
    for placement in list(state.placed.values()):
        if not resources.isdisjoint(placement.pod.requests):
            recount(state, placement, placement.pod)
