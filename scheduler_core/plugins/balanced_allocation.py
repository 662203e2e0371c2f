"""NodeResourcesBalancedAllocation: prefer nodes whose resources would be used evenly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import MAX_NODE_SCORE, Scope
from scheduler_core.framework.scoring import DEFAULT_RESOURCES, used_after
from scheduler_core.framework.status import SKIP, SUCCESS, Status
from scheduler_core.framework.view import NodeView


class NodeResourcesBalancedAllocation:
    """Score: 100 * (1 - standard deviation of the fractions used), over the configured resources."""

    name = "NodeResourcesBalancedAllocation"
    scope = Scope.USAGE

    def __init__(self, resources: Sequence[tuple[str, int]] = DEFAULT_RESOURCES) -> None:
        self.resources = tuple(resources)

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """A best-effort pod changes no balance."""
        asked = any(cycle.pod.requests.get(name) for name, _ in self.resources)
        return SUCCESS if asked else SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M] 0..100. Resources that a node does not have are left out for that node."""
        fractions, present = [], []
        for resource, _ in self.resources:
            pair = used_after(cycle, nodes, resource, nonzero=False)
            if pair is None:
                continue
            allocatable, used = pair
            fractions.append(np.minimum(used / np.maximum(allocatable, 1), 1.0))
            present.append(allocatable > 0)
        if not fractions:
            return np.zeros(len(nodes), dtype=np.int64)
        values = np.stack(fractions)  # [k, M] float64
        mask = np.stack(present)  # [k, M] bool
        count = mask.sum(axis=0)
        mean = np.where(mask, values, 0.0).sum(axis=0) / np.maximum(count, 1)
        if len(fractions) == 2:
            # Exact for two: half the distance, without the rounding of a square root.
            deviation = np.where(count == 2, np.abs(values[0] - values[1]) / 2, 0.0)
        else:
            square = np.where(mask, (values - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count, 1)
            deviation = np.sqrt(square)
        return ((1.0 - deviation) * MAX_NODE_SCORE).astype(np.int64)
