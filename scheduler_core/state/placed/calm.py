"""Calm: pods that have not yet run for as long as their quota asks for before they may be taken."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler_core.arrays.types import Bool, Float, Int64
from scheduler_core.state.placed.pods import PodTable


class Calm(NamedTuple):
    """`young` bool [rows] marks pods that may not be taken yet; `until` is when the first of them may be.

    `owner` is the number of the quota of that pod, -1 if there is none.
    """

    young: Bool
    until: float
    owner: int


def calm_of(table: PodTable, eligible: Bool, of: Int64, least: Sequence[float], now: float) -> Calm:
    """The pods among `eligible` (bool [rows]) that run for less than their quota asks for.

    `of` int64 [namespaces] is the number of each namespace's quota, and `least` [Q] the seconds by number.
    """
    young: Bool = np.zeros(len(eligible), dtype=np.bool_)
    if not any(least):
        return Calm(young, inf, -1)
    rows = np.flatnonzero(eligible)
    owners = of[table.namespace[rows]]
    seconds: Float = np.array(least, dtype=np.float64)[owners]
    free = table.start[rows] + seconds
    # The clock of a kubelet may be ahead.
    late = (free > now) & (seconds > 0)
    if not late.any():
        return Calm(young, inf, -1)
    young[rows[late]] = True
    first = int(np.argmin(np.where(late, free, inf)))
    return Calm(young, float(free[first]), int(owners[first]))
