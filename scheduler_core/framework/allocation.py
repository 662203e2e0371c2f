"""Scoring strategies of NodeResourcesFit: points for how much of a node would be allocated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.interface import MAX_NODE_SCORE
from scheduler_core.framework.scoring import Numbers, percent

# (allocatable, used), [M] each with allocatable > 0, to points [M] 0..100 of the type of allocatable.
Points = Callable[[Numbers, Numbers], Numbers]


class ResourceScoring(msgspec.Struct, frozen=True):
    """Points of one resource, and how those of several are averaged.

    The mean is weighted and rounded down. With `scored_only` a resource without points does not count, and
    the mean is rounded to the nearest (RequestedToCapacityRatio in kube-scheduler).
    """

    points: Points
    scored_only: bool = False

    def mean(self, total: Numbers, weights: Int64 | int) -> Int64:
        """int64 [M]: weighted sum of points divided by the sum of the weights that count; 0 for none."""
        divisor = np.maximum(weights, 1)
        if self.scored_only:
            # Round half up: points are never negative.
            nearest: Int64 = (2 * total.astype(np.int64) + divisor) // (2 * divisor)
            return nearest
        if total.dtype == np.float64:
            return (total / divisor).astype(np.int64)
        return total.astype(np.int64) // divisor


def least_allocated(allocatable: Numbers, used: Numbers) -> Numbers:
    """floor((allocatable - used) * 100 / allocatable), 0 if over."""
    left = allocatable - used
    return percent(np.maximum(left, 0, out=left), allocatable)


def most_allocated(allocatable: Numbers, used: Numbers) -> Numbers:
    """floor(used * 100 / allocatable), 100 if over."""
    return percent(np.minimum(used, allocatable), allocatable)


def capacity_ratio(shape: Sequence[tuple[int, int]]) -> Points:
    """Points along a broken line through (utilization in percent, score 0..10), flat beyond its ends."""
    table = np.array([_on_line(shape, use) for use in range(101)], dtype=np.int64)  # [101]

    def points(allocatable: Numbers, used: Numbers) -> Numbers:
        found: Int64 = table[most_allocated(allocatable, used).astype(np.int64)]
        return found

    return points


def _on_line(shape: Sequence[tuple[int, int]], use: int) -> int:
    """Points at one utilization; slopes are cut towards zero, as Go divides integers."""
    scale = MAX_NODE_SCORE // 10
    if use <= shape[0][0]:
        return shape[0][1] * scale
    for (left, low), (right, high) in pairwise(shape):
        if use <= right:
            rise, run = (high - low) * scale * (use - left), right - left
            return low * scale + (rise // run if rise >= 0 else -(-rise // run))
    return shape[-1][1] * scale


LEAST: Final = ResourceScoring(least_allocated)
MOST: Final = ResourceScoring(most_allocated)
