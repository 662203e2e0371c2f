"""The question of how many pods each child of one parent gets, where only one total is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.tables import Table

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Division:
    """`target` pods to be added below one parent. tables: [words, units, C] of its children, in tree order.

    rule: of the children's level; weight: of that level's component in word 0, if it is there, or 0.
    based: bool [units], children that hold pods already.
    """

    tables: Table
    rule: LevelRule
    target: int
    weight: int
    based: Mask

    @cached_property
    def feasible(self) -> Mask:
        """bool [units, C]."""
        return self.tables[0] < INFEASIBLE

    @cached_property
    def largest(self) -> NDArray[np.int64]:
        """The largest feasible count of each unit, int64 [units]."""
        return largest_counts(self.feasible)

    @cached_property
    def least(self) -> int:
        """A lower bound of the level's component: used units (pack) or sum of squares (spread)."""
        if not self.rule.spread:
            return self.rule.exact or fewest_units(self.largest, self.target)
        level = water_level(np.sort(self.largest), self.target)
        counts = np.minimum(self.largest, level)
        raised = max(0, self.target - int(counts.sum()))
        return int((counts * counts).sum()) + raised * (2 * level + 1)

    def cost(self, shares: Mapping[int, int]) -> Table:
        """[words], the price of giving these shares."""
        counts = np.zeros(self.tables.shape[1], dtype=np.int64)
        counts[list(shares)] = list(shares.values())
        return self.tables[:, np.arange(len(counts)), counts].sum(axis=1)


def fewest_units(rooms: NDArray[np.int64], target: int) -> int:
    """How many of these units it takes at least; more than there are when all are not enough."""
    return int(np.searchsorted(np.cumsum(np.sort(rooms)[::-1]), target)) + 1


def largest_counts(feasible: Mask) -> NDArray[np.int64]:
    """The largest feasible count of each unit, int64 [units]."""
    reverse = feasible[:, ::-1]
    return np.where(feasible.any(axis=1), feasible.shape[1] - 1 - reverse.argmax(axis=1), 0)


def water_level(largest: NDArray[np.int64], target: int) -> int:
    """The level up to which `target` pods fill units of the given sizes (ascending) evenly."""
    units = len(largest)
    below = np.concatenate(([0], np.cumsum(largest)[:-1]))
    levels = (target - below) // (units - np.arange(units))
    short = np.flatnonzero(levels < largest)
    return int(levels[short[0]]) if len(short) else int(largest[-1])
