"""Level by level from the nodes up: the cheapest way to add c pods below every unit; then back down.

The cost of a placement is a sum over units and the pods are equal, so this is a knapsack on a tree and its
answer is the optimum of the whole objective for every mix of rules.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.merge import Expired, Merge, merge_children
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.problem import Problem
from scheduler_core.topology.tables import Table, infeasible


def solve(problem: Problem, expired: Expired) -> NDArray[np.int64] | None:
    """Pods added per leaf, int64 [leaves], or None when no placement meets the strict rules.

    Raises OutOfBudget when `expired()` turns true before the optimum is known.
    """
    tree, missing = problem.tree, problem.missing
    merges: list[list[Merge]] = []
    below = _leaf_tables(problem)
    for level in reversed(range(tree.depth)):
        tables = _own_costs(problem, level, below)
        limits = np.minimum(problem.free[level - 1], missing) if level else np.array([missing])
        rule = problem.rules[level]
        merged = merge_children(
            tables, tree.offsets[level], rule.exact, problem.held[level] > 0, limits, expired
        )
        merges.append(merged)
        below = _parents_tables(problem, level, merged)
    if missing >= below.shape[2] or below[0, 0, missing] >= INFEASIBLE:
        return None
    return _read_back(problem, merges)


def _leaf_tables(problem: Problem) -> Table:
    """What lies below a node costs nothing: [words, leaves, C], infeasible above the node's capacity."""
    free = problem.free[-1]
    most = int(min(problem.missing, free.max(initial=0)))
    tables = np.zeros((problem.objective.words, len(free), most + 1), dtype=np.int64)
    tables[0][np.arange(most + 1) > free[:, None]] = INFEASIBLE
    return tables


def _own_costs(problem: Problem, level: int, below: Table) -> Table:
    """Add the price of the units themselves, and rule out counts that their level does not allow."""
    rule, size = problem.rules[level], problem.size
    counts = problem.held[level][:, None] + np.arange(below.shape[2])  # [units, C]
    rooms = (problem.held[level] + problem.free[level])[:, None]
    tables = below + problem.objective.unit_costs(level, counts, rooms)
    allowed = (counts >= rule.lowest) & (counts <= rule.highest(size)) & (counts % rule.step == 0)
    tables[0][~(allowed | (counts == 0)) | (below[0] >= INFEASIBLE)] = INFEASIBLE
    return tables


def _parents_tables(problem: Problem, level: int, merges: list[Merge]) -> Table:
    """The merged results in order of the parents: [words, parents, C]."""
    parents = len(problem.tree.offsets[level]) - 1
    exact = problem.rules[level].exact
    most = max(merge.result.shape[3] for merge in merges)
    tables = infeasible((problem.objective.words, parents, most))
    for merge in merges:
        result = merge.result
        width = result.shape[3]
        if exact is None:
            tables[:, merge.parents, :width] = result[:, :, 0]
            continue
        if exact < result.shape[2]:
            tables[:, merge.parents, :width] = result[:, :, exact]
        unused = result[0, :, 0, 0] < INFEASIBLE
        tables[:, merge.parents[unused], 0] = result[:, unused, 0, 0]
    return tables


def _read_back(problem: Problem, merges: list[list[Merge]]) -> NDArray[np.int64]:
    """Follow the decisions from the root to the nodes."""
    wanted = {0: problem.missing}
    for level, level_merges in enumerate(reversed(merges)):
        exact = problem.rules[level].exact or 0
        finer: dict[int, int] = {}
        for merge in level_merges:
            for row, parent in enumerate(merge.parents.tolist()):
                if wanted.get(parent):
                    finer.update(merge.take_apart(row, exact, wanted[parent]))
        wanted = finer
    added = np.zeros(len(problem.tree.leaves), dtype=np.int64)
    added[list(wanted)] = list(wanted.values())
    return added
