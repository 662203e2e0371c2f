"""NodeAffinity: filters by nodeSelector and required node affinity, scores by preferred terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.matching import match_required, match_term
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.scoring import default_normalize
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import NODE_AFFINITY
from scheduler_core.model.pods.affinity import PodNodeAffinity as Affinity
from scheduler_core.state.events import EventKind

POD_REASON: Final = Reason("node(s) didn't match Pod's node affinity/selector", resolvable=False)
ADDED_REASON: Final = Reason("node(s) didn't match scheduler-enforced node affinity", resolvable=False)


class NodeAffinity:
    """`added` is the profile's addedAffinity: it applies to every pod of the profile."""

    name = NODE_AFFINITY
    scope = Scope.STATIC

    def __init__(self, added: Affinity | None = None) -> None:
        self.added = added or Affinity()

    def pre_filter(self, cycle: Cycle) -> Status:
        """Nothing to say where neither pod nor profile restricts nodes."""
        pod = cycle.pod
        wanted = pod.node_selector or pod.node_affinity.required is not None
        return SUCCESS if wanted or self.added.required is not None else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]: bit 0 the pod's own rule, bit 1 the profile's."""
        pod = cycle.pod
        bits = (~match_required(nodes, pod.node_selector, pod.node_affinity)).astype(np.uint64)
        if self.added.required is not None:
            bits |= (~match_required(nodes, (), self.added)).astype(np.uint64) << np.uint64(1)
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The two bits."""
        return (POD_REASON, ADDED_REASON)

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """Skip without preferred terms."""
        return SUCCESS if cycle.pod.node_affinity.preferred or self.added.preferred else SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M]: sum of the weights of the preferred terms that match."""
        out: Int64 = np.zeros(len(nodes), dtype=np.int64)  # [M]
        for preferred in (*self.added.preferred, *cycle.pod.node_affinity.preferred):
            # An empty term matches no node here either: it counts for nothing.
            out += preferred.weight * match_term(nodes, preferred.term)
        return out

    def normalize(self, cycle: Cycle, raw: Int64, feasible: NDArray[np.bool_]) -> Int64:
        """int64 [N]: the most weight is best."""
        return default_normalize(raw, feasible)

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A node came or changed its labels."""
        return Obstacle.KIND.hints()
