"""The first pod of a group by required affinity, beside nominated pods of the group that start before it.

A pod whose required affinity selects itself may take any node while it selects no other pod. Once a nominated
pod that it selects has started, only the domain of that pod will do. So a pod must not preempt elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.nominations.nominated_counts import PodsAhead, counted_nominees
from scheduler_core.framework.pod_terms import selected_by_all
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.domains import Domains
from scheduler_core.state.neighbours.selections import Selection
from scheduler_core.state.nomination import Nomination


def _own_group(state: ClusterState, pod: Pod) -> tuple[Selection, list[Domains]] | None:
    """What the required affinity of a pod selects, and its domains; None if it does not select the pod."""
    terms = pod.pod_affinity.required
    if not terms:
        return None
    everyone = selected_by_all(state, pod, terms)
    keys = dict.fromkeys(term.topology_key for term in terms)
    return (everyone, [state.neighbours.domains(key) for key in keys]) if everyone.takes(pod) else None


class FirstOfGroup:
    """What nominated pods leave to a pod that may be the first of its group; made before it is tried."""

    def __init__(self, state: ClusterState, pod: Pod) -> None:
        self._state = state
        # Domains, and in which of them (bool [V + 1]) nominated pods of the group wait.
        self._coming: list[tuple[Domains, Bool]] = []
        group = _own_group(state, pod)
        if group is not None:
            self._everyone, domains = group
            ahead, nominees = PodsAhead(state, pod), counted_nominees(state, self._everyone)
            self._coming = [(item, ahead.per_domain(nominees, item) > 0) for item in domains]

    def allows(self, slot: int) -> bool:
        """Whether the pod may take a node in the present state."""
        if not any(coming.any() for _, coming in self._coming):
            return True
        neighbours = self._state.neighbours
        if any(neighbours.selected(self._everyone, domains).any() for domains, _ in self._coming):
            return True
        return all(coming[domains.raw[slot]] for domains, coming in self._coming)


def first_after(state: ClusterState, nomination: Nomination) -> set[str]:
    """Leaving pods (uids) of its group after whose end a nominated pod may be the first one; else none."""
    group, slot = _own_group(state, nomination.pod), state.nodes.slot(nomination.node)
    if group is None or slot is None:
        return set()
    everyone, domains = group
    there = {item.key: state.neighbours.selected(everyone, item).astype(np.int64) for item in domains}
    leaving = [other for other in state.table.leaving_pods() if everyone.takes(other)]
    if not leaving or _met(domains, there, slot):
        return set()
    for other in leaving:
        for item in domains:
            there[item.key][item.ids[state.placed[other.uid].slot]] -= 1
    return {other.uid for other in leaving} if _met(domains, there, slot) else set()


def _met(domains: list[Domains], there: Mapping[Hashable, Int64], slot: int) -> bool:
    """Whether the affinity is met on a node, with so many pods of the group per domain (int64 [V + 1])."""
    nobody = not any(there[item.key][:-1].any() for item in domains)
    return nobody or all(there[item.key][item.raw[slot]] > 0 for item in domains)
