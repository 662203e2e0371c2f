"""Gangs whose members must be near each other: which domains could hold all of them.

The first member decides for the others where they go. Placed for itself it may choose a domain that is too
small, and no order of the members helps then; so the first one is tried in other domains as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.pod_terms import reached
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState

# In so many domains that have room enough a gang is tried.
MOST_DOMAINS: Final = 8


def shared_keys(state: ClusterState, pods: Sequence[Pod]) -> list[str]:
    """Topology keys by whose domains some members must be near others, or near pods like themselves."""
    found: dict[str, None] = {}
    terms = {(pod.namespace, term): pod for pod in pods for term in pod.pod_affinity.required}
    for (_, term), pod in terms.items():
        takes = reached(state, pod, term).takes
        if any(takes(other) for other in pods):
            found[term.topology_key] = None
    return list(found)


def starts(
    state: ClusterState, keys: Sequence[str], pods: Sequence[Pod], need: int, slots: Sequence[int]
) -> list[int]:
    """Of the `slots` the first of each domain that may hold `need` of the pods, for a few domains.

    What a domain may hold is counted by the least that any of them asks; `state` knows their resources.
    """
    nodes, size = state.nodes, state.nodes.size
    least: Int64 = np.minimum.reduce([state.vector(pod) for pod in pods])
    asked = np.flatnonzero(least)
    free = (nodes.allocatable[:, :size] - nodes.requested[:, :size])[asked]
    fits: Int64 = np.maximum(free, 0) // least[asked][:, None]  # [k, N]
    room = fits.min(axis=0) * nodes.alive[:size]  # [N]
    ids = np.stack([state.neighbours.domains(key).raw[:size] for key in keys])  # [keys, N]
    _, domain = np.unique(ids, axis=1, return_inverse=True)
    enough = np.bincount(domain, weights=room) >= need
    open_ = enough[domain] & (ids >= 0).all(axis=0)  # [N]
    able = np.array(slots, dtype=np.int64)
    able = able[open_[able]]
    _, first = np.unique(domain[able], return_index=True)
    found: list[int] = able[np.sort(first)][:MOST_DOMAINS].tolist()
    return found
