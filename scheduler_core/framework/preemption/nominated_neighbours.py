"""Required anti-affinity between a pod and nominated pods that go first, in domains wider than a node.

Room that evictions freed is of no use to the pod that evicted once another one takes any node of the domain
and either rejects the other. On the nominated node itself all filters are tried (`engine.evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from scheduler_core.framework.preemption.nominated import Precedence
from scheduler_core.model.pod import Pod
from scheduler_core.state.affinity_index import wide_repelling
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nominations import Nomination

Bool = NDArray[np.bool_]


def closed_beside(state: ClusterState, pod: Pod) -> Bool | None:
    """bool [N]: nodes whose domain a pod may not share with nominated pods that go first; None for none."""
    nominations = state.nominations
    own = wide_repelling(pod)
    if not own and not nominations.repelling:
        return None
    nodes, neighbours = state.nodes, state.neighbours
    closed: Bool | None = None  # [N]
    for item in _first_of_all(state, pod) if own else _first_of_repelling(state, pod):
        slot = nodes.slot(item.node)
        if slot is None:
            continue
        keys = {term.topology_key for term in own if neighbours.speaks_of(term, item.pod)}
        keys |= {term.topology_key for term in wide_repelling(item.pod) if neighbours.speaks_of(term, pod)}
        for key in keys:
            ids = neighbours.domains(key).raw[: nodes.size]
            if ids[slot] >= 0:
                same = ids == ids[slot]
                closed = same if closed is None else closed | same
    return closed


def _first_of_all(state: ClusterState, pod: Pod) -> Iterator[Nomination]:
    precedence = Precedence(state, pod)
    waiting = state.nominations.waiting(lambda _: True)
    return (item for item in waiting if item.pod.uid != pod.uid and precedence.goes_first_beside(item))


def _first_of_repelling(state: ClusterState, pod: Pod) -> Iterator[Nomination]:
    precedence = Precedence(state, pod)
    waiting = state.nominations.repelling.values()
    return (item for item in waiting if item.pod.uid != pod.uid and precedence.goes_first_beside(item))
