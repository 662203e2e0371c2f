"""What decisions mean for those who wait: pods that have a node now, and room that victims leave.

Evictions that free more than the preemptors take matter to others: the rest may be enough beside fewer
victims. Where every preemptor takes what its victims leave, nobody else gains, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.model.pod import Pod
from scheduler_core.state.affinity_index import carries_terms
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened


def placements(decisions: Iterable[Decision]) -> list[ClusterEvent]:
    """An event for each pod that was given a node."""
    return [ClusterEvent(Happened.POD_ADD, pod=item.pod) for item in decisions if isinstance(item, Placed)]


def nodes_given(decisions: Iterable[Decision]) -> set[str]:
    """The nodes that pods were given."""
    return {item.node for item in decisions if isinstance(item, Placed)}


def surplus(
    state: ClusterState, decisions: Iterable[Decision], before: Collection[str] = ()
) -> list[ClusterEvent]:
    """An event for each pod that was evicted just now, if others than the preemptors may gain by it.

    Those in `before` (uids) were nominated already: what they take has been counted since then.
    """
    made = list(decisions)
    victims = [item.pod for item in made if isinstance(item, Evicted)]
    if not victims or not (
        _beside_resources(victims) or _below_min(state, victims) or _room(state, made, before)
    ):
        return []
    return [ClusterEvent(Happened.POD_LEAVING, pod=victim) for victim in victims]


def _beside_resources(victims: Iterable[Pod]) -> bool:
    """Whether victims hold what is no resource of which the preemptors take their share."""
    return any(pod.host_ports or carries_terms(pod) for pod in victims)


def _below_min(state: ClusterState, victims: Iterable[Pod]) -> bool:
    """Whether a quota uses less than its min without those who leave, so that its pods may reclaim."""
    ledger = state.ledger
    for namespace in {pod.namespace for pod in victims}:
        quota = ledger.quota_of(namespace)
        if quota is None:
            continue
        used, leaving = ledger.used(namespace), ledger.leaving(namespace)
        if any(used.get(name, 0) - leaving.get(name, 0) < low for name, low in quota.min.items()):
            return True
    return False


def _room(state: ClusterState, decisions: Iterable[Decision], before: Collection[str]) -> bool:
    """Whether more leaves a node than was nominated there just now."""
    left: dict[int, Int64] = {}
    for item in decisions:
        if isinstance(item, Evicted):
            placement = state.placed.get(item.pod.uid)
            if placement is not None:
                _add(left, placement.slot, placement.vector, 1)
        elif isinstance(item, Rejected) and item.nominated and item.pod.uid not in before:
            slot = state.nodes.slot(item.nominated)
            nomination = state.nominations.get(item.pod.uid)
            if slot is not None and nomination is not None:
                _add(left, slot, nomination.vector, -1)
    return any((vector > 0).any() for vector in left.values())


def _add(left: dict[int, Int64], slot: int, vector: Int64, sign: int) -> None:
    """Count requests (int64 [R]) of a node in, or out; a pod may know more resources than an older one."""
    known = left.get(slot, vector[:0])
    total: Int64 = np.zeros(max(len(known), len(vector)), dtype=np.int64)
    total[: len(known)] = known
    total[: len(vector)] += sign * vector
    left[slot] = total
