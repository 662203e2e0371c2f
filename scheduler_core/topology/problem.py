"""A placement question as arrays per level: what is held, what is free, and how results are priced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.objective import MOST_SLOTS, Objective, build_objectives
from scheduler_core.topology.tree import Tree


@dataclass(frozen=True, eq=False)
class Problem:
    """A group of `size` pods to be placed. All arrays are int64 and per level.

    held[l] [units]: members already there, which stay. free[l] [units]: how many more fit.
    objectives[l]: what tables of units of level l are written in; the first also prices whole placements.
    """

    tree: Tree
    rules: Rules
    size: int
    held: tuple[NDArray[np.int64], ...]
    free: tuple[NDArray[np.int64], ...]
    objectives: tuple[Objective, ...]

    @property
    def missing(self) -> int:
        """How many members are still to be placed."""
        return self.size - int(self.held[-1].sum())


def pose(
    tree: Tree, capacity: NDArray[np.int64], size: int, rules: Rules, fixed: NDArray[np.int64] | None
) -> Problem:
    """Set up the arrays of a problem; capacity and fixed are int64 [leaves]."""
    held = np.zeros(len(tree.leaves), dtype=np.int64) if fixed is None else fixed.astype(np.int64)
    slots = np.clip(capacity, 0, MOST_SLOTS)
    held_by_level, free_by_level = tree.sums(held), tree.sums(slots)
    rooms = [free + taken for free, taken in zip(free_by_level, held_by_level, strict=True)]
    objectives = build_objectives(tree, rules, size, rooms)
    return Problem(tree, rules, size, held_by_level, free_by_level, objectives)
