"""A placement problem as arrays per level: held members, free slots and the objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule, Rules, terms_of
from scheduler_core.topology.objective import MOST_SLOTS, Objective, build_objectives
from scheduler_core.topology.tree import Tree


@dataclass(frozen=True, eq=False)
class Problem:
    """A group of `size` pods to be placed. All arrays are int64 and per level.

    held[l] [units]: members already there, which stay. free[l] [units]: how many more fit.
    limits[l] [units]: how many more the strict rules of this level and below may let in; most: the same of
    the root. objectives[l]: what tables of units of level l are written in; the first also prices whole
    placements.
    """

    tree: Tree
    rules: Rules
    size: int
    held: tuple[NDArray[np.int64], ...]
    free: tuple[NDArray[np.int64], ...]
    limits: tuple[NDArray[np.int64], ...]
    most: int
    objectives: tuple[Objective, ...]

    @property
    def missing(self) -> int:
        """The number of members that are still to be placed."""
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
    bounded = bool(terms_of(rules)) and not held.any()
    limits = upper_limits(tree, rules, size, slots) if bounded else free_by_level
    most = _of_families(tree.offsets[0], limits[0], rules[0].exact if bounded else None)
    return Problem(tree, rules, size, held_by_level, free_by_level, limits, int(most.sum()), objectives)


def upper_limits(
    tree: Tree, rules: Rules, size: int, slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """The most pods that every unit can hold, per level from the top: ranges, factors and parts counted.

    slots: int64 [leaves], all free. An upper bound: whether sums work out is not looked at.
    """
    limits = [_allowed(rules[-1], size, slots)]
    for level in reversed(range(tree.depth - 1)):
        below = _of_families(tree.offsets[level + 1], limits[-1], rules[level + 1].exact)
        limits.append(_allowed(rules[level], size, below))
    return tuple(reversed(limits))


def _allowed(rule: LevelRule, size: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest count that a level's rule allows within `room`, 0 where there is none."""
    largest = np.minimum(room, rule.highest(size)) // rule.step * rule.step
    return np.where(largest >= rule.lowest, largest, 0)


def _of_families(
    offsets: NDArray[np.int64], children: NDArray[np.int64], exact: int | None
) -> NDArray[np.int64]:
    """Sums of the children of every parent, or of its `exact` largest ones; 0 where it has not as many."""
    if not len(children):
        return np.zeros(len(offsets) - 1, dtype=np.int64)
    if exact is None:
        return np.add.reduceat(children, offsets[:-1])
    if exact == 1:
        return np.maximum.reduceat(children, offsets[:-1])
    parents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    largest_first = children[np.lexsort((-children, parents))]
    counted = np.arange(len(children)) - offsets[parents] < exact
    sums = np.add.reduceat(np.where(counted, largest_first, 0), offsets[:-1])
    used = np.add.reduceat(counted & (largest_first > 0), offsets[:-1])
    return np.where(used == exact, sums, 0)
