"""Members that gangs have to spare: where a gang must not go as a whole, some of its members may.

The least important members of a gang go first. Small ones may be so many that the gang falls below its
minimum before they have made room, and it goes as a whole. Where that frees more than may be taken, as many
members as the gang can spare may be enough, if they are the largest.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler_core.arrays.types import Bool, Float
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.dry_run import DisruptedGang
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.ranks import running_rows, within_minimum


def without_torn_gangs(state: ClusterState, demand: Demand, torn: Iterable[DisruptedGang]) -> Bool:
    """bool [rows]: the candidates of a demand without members of gangs that evictions tore, but for as many
    of each as it can spare. These are the ones that free most of what the demand needs.
    """
    eligible = demand.eligible.copy()
    for gang in torn:
        members = state.gangs.members_of_unit(gang.key)
        running = np.array(running_rows(members, state.placed, state.table), dtype=np.int64)
        candidates = running[eligible[running]][::-1]  # the least important first
        eligible[candidates] = False
        order = np.argsort(-_frees(state, demand, candidates), kind="stable")
        eligible[candidates[order[: _spare(state, gang.key, len(running))]]] = True
    return eligible


def _spare(state: ClusterState, key: str, running: int) -> int:
    """How many of its running members a gang can lose one by one; none of trees, which go as a whole."""
    gang = state.gangs.gangs.get(key)
    if gang is None or state.gangs.forest.taken_with(key) is not None:
        return 0
    return max(0, running - within_minimum(gang, running))


def _frees(state: ClusterState, demand: Demand, rows: Rows) -> Float:
    """float64 [M]: how much pods free of what is asked for; each resource counts for 1 at most."""
    asked = np.flatnonzero(demand.request > 0)
    held = state.table.requests[np.ix_(asked, rows)]
    found: Float = np.minimum(held / demand.request[asked, None], 1.0).sum(axis=0)
    return found
