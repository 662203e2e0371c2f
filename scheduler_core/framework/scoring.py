"""Helpers of score plugins: reading the use of nodes, and normalizing raw scores to 0..100."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import MAX_NODE_SCORE
from scheduler_core.framework.view import NodeView
from scheduler_core.model import names
from scheduler_core.state.nodes.table import EXACT_DIVISOR

Numbers = NDArray[np.int64] | NDArray[np.float64]

DEFAULT_RESOURCES: tuple[tuple[str, int], ...] = ((names.CPU, 1), (names.MEMORY, 1))


def chosen(values: Int64, feasible: NDArray[np.bool_]) -> Int64:
    """int64 [K], read-only: the values of feasible nodes."""
    return values if feasible.all() else values.compress(feasible)


def default_normalize(raw: Int64, feasible: NDArray[np.bool_], *, reverse: bool = False) -> Int64:
    """Scale to 0..100 by the largest feasible value, floor division; `reverse` turns it round.

    All zeros stay 0, or become 100 when reversed (kube-scheduler's DefaultNormalizeScore).
    """
    top = int(raw[feasible].max(initial=0))
    if top <= 0:
        return np.full_like(raw, MAX_NODE_SCORE) if reverse else np.zeros_like(raw)
    scaled: Int64 = raw * MAX_NODE_SCORE // top
    return MAX_NODE_SCORE - scaled if reverse else scaled


def percent(part: Numbers, whole: Numbers) -> Numbers:
    """floor(part * 100 / whole) [M], exact; 0 <= part <= whole, whole > 0; of the type of `whole`.

    Division in float64 is several times faster than in int64, and floors the same while `whole` is below
    EXACT_DIVISOR: whole numbers that are float64 already must be.
    """
    if whole.dtype == np.float64:
        scaled = part * float(MAX_NODE_SCORE)
        scaled /= whole
        return np.floor(scaled, out=scaled)
    if len(whole) and int(whole.max()) < EXACT_DIVISOR:
        return (part * MAX_NODE_SCORE / whole).astype(np.int64)
    return part * MAX_NODE_SCORE // whole


def used_after(cycle: Cycle, nodes: NodeView, resource: str, *, nonzero: bool) -> tuple[int, Int64] | None:
    """(row, use with the pod on it, int64 [M]), or None where the resource is not to be scored.

    As in kube-scheduler: cpu and memory count defaults for containers that request none if `nonzero`; an
    extended resource counts only if the pod asks for it.
    """
    row = cycle.state.index.row(resource)
    if row is None:
        return None
    if nonzero and resource in (names.CPU, names.MEMORY):
        which = 0 if resource == names.CPU else 1
        return row, nodes.nonzero[which] + cycle.pod.nonzero[which]
    asked = int(cycle.vector[row]) if row < len(cycle.vector) else 0
    native = resource in (names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE)
    if not asked and not native:
        return None
    return row, nodes.requested[row] + asked
