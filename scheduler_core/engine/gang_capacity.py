"""How many equal members could start at most: a bound over all nodes at once, before any is tried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState


def equal_members(cycle: PodCycle, members: Sequence[tuple[Profile, Pod]], now: float) -> bool:
    """Whether all members are of one class."""
    first = {cycle.new_cycle(profile, pod, now).signature for profile, pod in members}
    return len(first) == 1


def at_most(cycle: PodCycle, profile: Profile, pod: Pod, now: float, *, evicting: bool = False) -> int:
    """No more than this many pods like `pod` fit, by resources on the nodes that the static filters pass.

    With `evicting` the pods that could be victims of it, by the widest reading of the rules, are taken away.
    """
    own = cycle.new_cycle(profile, pod, now)
    ok = cycle.scores_for(profile, own).static.ok  # [N]
    state = cycle.state
    nodes, size = state.nodes, state.nodes.size
    asked = np.flatnonzero(own.vector)
    free: Int64 = nodes.allocatable[asked][:, :size] - nodes.requested[asked][:, :size]  # [k, N]
    free += _held_by(state, _possible_victims(state, pod) if evicting else _leaving(state), asked)
    fits = np.maximum(free, 0) // own.vector[asked][:, None]
    return int(fits.min(axis=0)[ok].sum())


def _leaving(state: ClusterState) -> NDArray[np.bool_]:
    size = state.table.size
    return state.table.alive[:size] & state.table.going[:size]


def _possible_victims(state: ClusterState, pod: Pod) -> NDArray[np.bool_]:
    """bool [rows]: lower priorities, and under a quota everything of other namespaces; what leaves anyhow."""
    table, size = state.table, state.table.size
    victims: NDArray[np.bool_] = table.priority[:size] < pod.priority
    if state.ledger.quota_of(pod.namespace) is not None:
        victims |= table.namespace[:size] != table.namespaces.find(pod.namespace)
    return (victims & table.alive[:size]) | _leaving(state)


def _held_by(state: ClusterState, chosen: NDArray[np.bool_], asked: NDArray[np.int64]) -> Int64:
    """int64 [k, N]: what the chosen rows of the pod table hold of some resources."""
    held: Int64 = np.zeros((state.nodes.size, len(asked)), dtype=np.int64)  # [N, k]
    rows = np.flatnonzero(chosen)
    state.table.cover(len(state.index))
    np.add.at(held, state.table.slot[rows], state.table.requests[asked][:, rows].T)
    return held.T
