"""Formulas of load-aware scheduling over nodes and pods at once: use, room below a threshold, score.

R resources, P pods, N nodes; amounts are int64 of at most MAX_AMOUNT each.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.load.spec import Percentile
from scheduler_core.model.duration import parse_duration
from scheduler_core.model.node_metric import NodeMetric

# More than any amount that can be used: the room where no threshold holds.
UNLIMITED: Final = 2**62


class Contributions(NamedTuple):
    """The amounts that each pod adds to its node: int64 [R, P] each."""

    delta: Int64
    prod_usage: Int64
    prod_delta: Int64


def contributions(estimate: Int64, usage: Int64, estimated: Bool, prod: Bool, as_prod: Bool) -> Contributions:
    """The amounts that pods add to the use of their nodes (docs/load-aware.md#how-a-node-is-judged).

    `estimate` and `usage` are int64 [R, P], usage 0 where a pod is not reported; `estimated`, `prod` (the
    pod's band) and `as_prod` (reported under that band) are bool [P]. The measured use of the node contains
    that of its pods already, so an estimated pod adds what exceeds its usage. A prod pod that is not reported
    as one adds its whole estimate to the prod use.
    """
    delta = np.where(estimated, np.maximum(estimate - usage, 0), 0)  # [R, P]
    counted = prod & as_prod
    prod_usage = np.where(counted, usage, 0)  # [R, P]
    prod_delta = np.where(counted, delta, np.where(prod, estimate, 0))  # [R, P]
    return Contributions(delta, prod_usage, prod_delta)


def grouped(values: Int64, counts: Int64) -> Int64:
    """Sums of consecutive columns: the first counts[0] of int64 [R, P], the next counts[1], ...: [R, S]."""
    out: Int64 = np.zeros((len(values), len(counts)), dtype=np.int64)  # [R, S]
    filled = counts > 0
    if filled.any():
        starts = (np.cumsum(counts) - counts)[filled]
        out[:, filled] = np.add.reduceat(values, starts, axis=1)
    return out


def room(threshold: Int64, capacity: Int64, load: Int64, *, inclusive: bool) -> Int64:
    """The amount that still fits before a threshold refuses the node: int64 [R, N]; UNLIMITED without one.

    Refused is `round(used / capacity * 100) > threshold`, half away from zero: the greatest `used` that
    passes is the greatest below `(threshold + 1/2)%` of the capacity. With `inclusive` it is the unrounded
    `used / capacity * 100 >= threshold`: the greatest below `threshold%`. All three arguments are [R, N].
    """
    holds = (threshold > 0) & (capacity > 0)
    share = threshold * capacity
    most = (share - 1) // 100 if inclusive else (2 * share + capacity - 1) // 200
    return np.where(holds, most - load, UNLIMITED)


def points(capacity: Int64, used: Int64) -> Int64:
    """floor((capacity - used) * 100 / capacity) within 0..100, 0 where there is no capacity: [R, N]."""
    free = np.maximum(capacity - used, 0) * 100
    return free // np.maximum(capacity, 1)


def score(values: Int64, weights: Int64, dominant: int) -> Int64:
    """Floor of the weighted mean of points [R, N]; the fewest points of a node enter with `dominant`: [N]."""
    total = weights @ values  # [N]
    whole = int(weights.sum()) + dominant
    if dominant:
        total += dominant * values.min(axis=0)
    return total // whole


@lru_cache(maxsize=1024)
def window_seconds(text: str) -> float | None:
    """Length of a reported window, None for text that is no duration."""
    return parse_duration(text)


def base_usage(metric: NodeMetric, percentile: Percentile | None) -> dict[str, int] | None:
    """The node's plain use, or the aggregate that is asked for (docs/load-aware.md#arguments).

    Without a duration the longest window with data counts, and plain use where there is none; None for a
    duration that is not reported: then the sum of all estimates stands for it.
    """
    plain = metric.usage or {}
    if percentile is None:
        return plain
    longest, found = 0.0, None
    for item in metric.percentiles:
        usage, seconds = item.usage.get(percentile.kind), window_seconds(item.duration)
        if not usage or seconds is None:
            continue
        if percentile.duration and seconds == percentile.duration:
            return usage
        if seconds > longest:
            longest, found = seconds, usage
    if percentile.duration:
        return None
    return plain if found is None else found
