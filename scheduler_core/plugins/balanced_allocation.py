"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Float, Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import MAX_NODE_SCORE, Scope
from scheduler_core.framework.scoring import DEFAULT_RESOURCES, used_after
from scheduler_core.framework.status import SKIP, SUCCESS, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import NODE_RESOURCES_BALANCED_ALLOCATION

_HALF: Final = MAX_NODE_SCORE // 2
# The score of a node whose balance stays as it is.
_UNCHANGED: Final = _HALF + _HALF // 2


class NodeResourcesBalancedAllocation:
    """Score: 50 + (50 + balance with the pod - balance without it) / 2, in whole numbers.

    The balance of a node is 100 * (1 - standard deviation of the fractions used), over the configured
    resources. So a node whose balance the pod improves scores above 75, one that it makes worse below
    (kube-scheduler since 1.36).
    """

    name = NODE_RESOURCES_BALANCED_ALLOCATION
    scope = Scope.USAGE

    def __init__(self, resources: Sequence[tuple[str, int]] = DEFAULT_RESOURCES) -> None:
        self.resources = tuple(resources)

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """A best-effort pod changes no balance."""
        asked = any(cycle.pod.requests.get(name) for name, _ in self.resources)
        return SUCCESS if asked else SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M] 50..100. Resources that a node does not have are left out for that node."""
        asked = [used_after(cycle, nodes, resource, nonzero=False) for resource, _ in self.resources]
        present = [use for use in asked if use is not None]
        if not present:
            return np.full(len(nodes), _UNCHANGED, dtype=np.int64)
        score = _balance(nodes, present)
        score -= _balance(nodes, [(row, nodes.requested[row]) for row, _ in present])
        # The difference is -50 to 50: halves are rounded down after it has become positive.
        score += _HALF
        score >>= 1
        score += _HALF
        return score


def _balance(nodes: NodeView, used: Sequence[tuple[int, Int64]]) -> Int64:
    """int64 [M] 50..100: how even the use (int64 [M]) of the resources in these rows is."""
    wholes = [whole for row, _ in used if (whole := nodes.divisor(row)) is not None]
    if len(used) == len(wholes) == 2:
        # The common case: half the distance is the deviation of two, without masks and square roots.
        first, second = (_fraction(use, whole) for (_, use), whole in zip(used, wholes, strict=True))
        first -= second
        deviation = np.abs(first, out=first)
        deviation /= 2
    else:
        deviation = _deviation([(nodes.allocatable[row], use) for row, use in used])
    balance = np.subtract(1.0, deviation, out=deviation)
    balance *= MAX_NODE_SCORE
    return balance.astype(np.int64)


def _fraction(used: Int64, whole: Float) -> Float:
    part: Float = used.astype(np.float64)
    part /= whole
    return np.minimum(part, 1.0, out=part)


def _deviation(present: Sequence[tuple[Int64, Int64]]) -> Float:
    """float64 [M]: population standard deviation of the fractions, nodes without a resource masked."""
    mask = np.stack([allocatable > 0 for allocatable, _ in present])  # [k, M]
    values = np.stack([np.minimum(used / np.maximum(has, 1), 1.0) for has, used in present])  # [k, M]
    count = np.maximum(mask.sum(axis=0), 1)
    mean = np.where(mask, values, 0.0).sum(axis=0) / count
    if len(present) == 2:
        return np.where(mask.all(axis=0), np.abs(values[0] - values[1]) / 2, 0.0)
    square: Float = np.where(mask, (values - mean) ** 2, 0.0).sum(axis=0) / count
    return np.sqrt(square)
