"""The part of a placement that does not branch: how far down the whole group fits below a single unit.

Where a level packs and some unit has room for all pods, every optimum uses one unit of that level. Only
such units, and only the count of the whole group, need a look there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.problem import Problem


@dataclass(frozen=True, eq=False)
class Stem:
    """The units that may hold the whole group, and the first level where it may branch.

    level: the level below `parents`, which are units of the level above it ([0], the root, for level 0).
    costs: int64 [words, parents], the price of each parent and of the units above it, in the
    objective of level 0. forced: whether strict
    rules allow nothing but a stem of this length.
    """

    level: int
    parents: NDArray[np.int64]
    costs: NDArray[np.int64]
    forced: bool


def root_stem(problem: Problem) -> Stem:
    """The stem that is only the root: the group may branch at once."""
    return Stem(
        0, np.zeros(1, dtype=np.int64), np.zeros((problem.objectives[0].words, 1), dtype=np.int64), True
    )


def longest_stem(problem: Problem) -> Stem:
    """Follow single units with room for the whole group; nothing may be held yet."""
    stem, target = root_stem(problem), problem.missing
    for level, rule in enumerate(problem.rules):
        if rule.exact != 1 and (rule.spread or rule.exact is not None):
            return stem
        room = problem.limits[level] >= target
        if level:
            below = np.zeros(len(problem.tree.units[level - 1]), dtype=np.bool_)
            below[stem.parents] = True
            room = room & below[problem.tree.parents[level]]
        units = np.flatnonzero(room) if rule.allows(target, problem.size) else np.zeros(0, dtype=np.int64)
        if not len(units):
            return stem
        above = np.searchsorted(stem.parents, problem.tree.parents[level][units])
        rooms = problem.free[level][units]
        own = problem.objectives[0].unit_costs(level, np.full(len(units), target), rooms)
        stem = Stem(level + 1, units, stem.costs[:, above] + own, stem.forced and rule.exact == 1)
    return stem
