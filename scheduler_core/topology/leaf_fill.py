"""Cost tables of the units just above the nodes, from the closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.leaves import fill_row, price_rows, sort_rows
from scheduler_core.topology.merge import Siblings
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.problem import Problem
from scheduler_core.topology.tables import Table

# Looking for units with the same slots pays from about this many units on.
FEWEST_TO_SHARE = 16


@dataclass(frozen=True, eq=False)
class LeafFill:
    """Units above the nodes that hold no pods yet. table: [words, parents, C]; slots: [parents, nodes]."""

    problem: Problem
    siblings: Siblings
    slots: NDArray[np.int64]
    table: Table

    def take_apart(self, row: int, added: int) -> Iterator[tuple[int, int]]:
        """(node, pods added) for every node that is given pods."""
        rule, size = self.problem.rules[-1], self.problem.size
        for column, count in fill_row(self.slots[row].tolist(), rule, size, added).items():
            yield int(self.siblings.children[row, column]), count


def fill_leaves(problem: Problem, siblings: Siblings, counts: NDArray[np.int64]) -> LeafFill:
    """Price the nodes below the siblings for each of `counts` pods, int64 [C] ascending from 0 or more."""
    rule, objective = problem.rules[-1], problem.objectives[-1]
    slots = np.where(siblings.children >= 0, problem.free[-1][siblings.children], 0)  # [parents, nodes]
    kinds, kind_of = _distinct(np.sort(slots, axis=1))
    prices = price_rows(sort_rows(kinds, rule, problem.size), rule, counts)
    table = np.zeros((objective.words, *prices.feasible.shape), dtype=np.int64)
    primary = objective.levels[-1]
    table[primary.word] += primary.weight * (prices.squares if rule.spread else prices.used)
    if not rule.spread:
        table[objective.split.word] += objective.split.weight * (counts * problem.size - prices.squares)
    table[objective.slots.word] += objective.slots.weight * prices.slots
    table[0][~prices.feasible] = INFEASIBLE
    table[:, :, counts == 0] = 0
    return LeafFill(problem, siblings, slots, table if kind_of is None else table[:, kind_of])


def _distinct(
    rows: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """The distinct rows, and for each row which of them it is; None when there is little to share."""
    if len(rows) < FEWEST_TO_SHARE:
        return rows, None
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    _, places, kind_of = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    return (rows, None) if 2 * len(places) > len(rows) else (rows[places], kind_of)
