"""Level by level from the nodes up: the cheapest way to add c pods below every unit; then back down.

The cost of a placement is a sum over units and the pods are equal, so this is a knapsack on a tree and its
answer is the optimum of the whole objective for every mix of rules. Nodes are priced in closed form, inner
units by merging tables, and the root, where only one count is asked for, by a pruned search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.apportion import apportion
from scheduler_core.topology.leaf_fill import fill_leaves
from scheduler_core.topology.merge import Siblings, gather_siblings, merge_siblings
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.problem import Problem
from scheduler_core.topology.tables import Expired, Table, infeasible


class Decisions(Protocol):
    """Tables of some parents, [words, parents, C], and how each entry comes about."""

    @property
    def siblings(self) -> Siblings: ...

    @property
    def table(self) -> Table: ...

    def take_apart(self, row: int, added: int) -> Iterable[tuple[int, int]]: ...


def solve(problem: Problem, expired: Expired) -> NDArray[np.int64] | None:
    """Pods added per leaf, int64 [leaves], or None when no placement meets the strict rules.

    Raises OutOfBudget when `expired()` turns true before the optimum is known.
    """
    if not problem.tree.leaves:
        return np.zeros(0, dtype=np.int64) if problem.missing == 0 else None
    if problem.tree.depth == 1 and problem.missing and not problem.held[0].any():
        return _solve_flat(problem)
    layers: list[Sequence[Decisions]] = []
    tables = _leaf_tables(problem, np.arange(len(problem.tree.leaves))) if problem.tree.depth == 1 else None
    for level in reversed(range(1, problem.tree.depth)):
        tables, decisions = _parents(problem, level, tables, expired)
        layers.append(decisions)
    assert tables is not None
    shares = apportion(problem, tables, expired)
    return None if shares is None else _read_back(problem, layers, shares)


def _solve_flat(problem: Problem) -> NDArray[np.int64] | None:
    (root,) = gather_siblings(problem.tree.offsets[0], np.array([0]))
    fill = fill_leaves(problem, root, np.array([problem.missing]))
    if fill.table[0, 0, 0] >= INFEASIBLE:
        return None
    return _read_back(problem, [], dict(fill.take_apart(0, problem.missing)))


def _parents(
    problem: Problem, level: int, tables: Table | None, expired: Expired
) -> tuple[Table, list[Decisions]]:
    """Tables of the units of level - 1, with their own price, from those of `level` (None: the nodes)."""
    offsets, held = problem.tree.offsets[level], problem.held[level - 1]
    limits = np.minimum(problem.free[level - 1], problem.missing)
    decisions: list[Decisions] = []
    everyone = np.arange(len(held))
    merged = everyone
    if tables is None:
        merged = np.flatnonzero(held > 0)
        for siblings in gather_siblings(offsets, np.flatnonzero(held == 0)):
            counts = np.arange(int(limits[siblings.parents].max()) + 1)
            decisions.append(fill_leaves(problem, siblings, counts))
        if len(merged):
            tables = _leaf_tables(problem, np.arange(len(problem.tree.leaves)))
    for siblings in gather_siblings(offsets, merged):
        assert tables is not None
        most = int(limits[siblings.parents].max())
        based = problem.held[level] > 0
        decisions.append(merge_siblings(tables, siblings, problem.rules[level].exact, based, most, expired))
    width = max(decision.table.shape[2] for decision in decisions)
    below = infeasible((problem.objective.words, len(everyone), width))
    for decision in decisions:
        below[:, decision.siblings.parents, : decision.table.shape[2]] = decision.table
    return _own_costs(problem, level - 1, everyone, below), decisions


def _leaf_tables(problem: Problem, leaves: NDArray[np.int64]) -> Table:
    """[words, leaves, C]: the price of the nodes alone, infeasible above their capacity."""
    free = problem.free[-1][leaves]
    most = int(min(problem.missing, free.max(initial=0)))
    tables = np.zeros((problem.objective.words, len(leaves), most + 1), dtype=np.int64)
    tables[0][np.arange(most + 1) > free[:, None]] = INFEASIBLE
    return _own_costs(problem, problem.tree.depth - 1, leaves, tables)


def _own_costs(problem: Problem, level: int, units: NDArray[np.int64], below: Table) -> Table:
    """Add the price of the units themselves, and rule out counts that their level does not allow."""
    rule, size = problem.rules[level], problem.size
    held, free = problem.held[level][units], problem.free[level][units]
    counts = held[:, None] + np.arange(below.shape[2])  # [units, C]
    tables = below + problem.objective.unit_costs(level, counts, (held + free)[:, None])
    allowed = (counts >= rule.lowest) & (counts <= rule.highest(size)) & (counts % rule.step == 0)
    tables[0][~(allowed | (counts == 0)) | (below[0] >= INFEASIBLE)] = INFEASIBLE
    return tables


def _read_back(
    problem: Problem, layers: Sequence[Sequence[Decisions]], shares: Mapping[int, int]
) -> NDArray[np.int64]:
    """Follow the decisions from the shares of the top units to the nodes."""
    wanted = dict(shares)
    for decisions in reversed(layers):
        finer: dict[int, int] = {}
        for decision in decisions:
            for row, parent in enumerate(decision.siblings.parents.tolist()):
                if wanted.get(parent):
                    finer.update(decision.take_apart(row, wanted[parent]))
        wanted = finer
    added = np.zeros(len(problem.tree.leaves), dtype=np.int64)
    added[list(wanted)] = list(wanted.values())
    return added
