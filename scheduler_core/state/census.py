"""Members of a gang, counted on the state as it is: who was chosen to go is no part of it any more."""

from __future__ import annotations

from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census


def take_census(state: ClusterState, key: str) -> Census:
    """Count a group's members. Pods whose eviction was decided count as on their way out, seen or not."""
    going, placed = state.table.going, state.placed
    leaving: set[str] = set()
    binding = 0
    for uid in state.gangs.members(key):
        placement = placed.get(uid)
        if placement is None:
            continue
        if going[placement.row]:
            leaving.add(uid)
        elif placement.assumed:
            binding += 1
    return state.gangs.census(key, placed, leaving, binding)
