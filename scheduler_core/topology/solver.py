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

from scheduler_core.topology.apportion import Division, apportion
from scheduler_core.topology.leaf_fill import fill_leaves
from scheduler_core.topology.merge import Siblings, gather_siblings, merge_siblings
from scheduler_core.topology.objective import INFEASIBLE, Objective, convert
from scheduler_core.topology.problem import Problem
from scheduler_core.topology.stem import Stem, longest_stem, root_stem
from scheduler_core.topology.tables import Expired, Table, first_smallest, infeasible


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
    if problem.missing == 0 or problem.held[-1].any():
        return _branch(problem, root_stem(problem), expired)
    stem = longest_stem(problem)
    added = _branch(problem, stem, expired)
    if added is None and not stem.forced:
        return _branch(problem, root_stem(problem), expired)
    return added


def _branch(problem: Problem, stem: Stem, expired: Expired) -> NDArray[np.int64] | None:
    """The best placement below one of the stem's parents."""
    depth, level = problem.tree.depth, stem.level
    if level == depth:
        return _read_back(problem, [], {int(stem.parents[first_smallest(stem.costs)]): problem.missing})
    if level == depth - 1 and not problem.held[-1].any() and problem.missing:
        return _fill_one(problem, stem)
    layers: list[Sequence[Decisions]] = []
    below = np.isin(problem.tree.parents[level], stem.parents)
    wanted = [np.flatnonzero(below)]
    for parents in problem.tree.parents[level + 1 :]:
        below = below[parents]
        wanted.append(np.flatnonzero(below))
    tables = _leaf_tables(problem, wanted[-1]) if level == depth - 1 else None
    for child_level in reversed(range(level + 1, depth)):
        tables, decisions = _parents(problem, child_level, wanted[child_level - 1 - level], tables, expired)
        layers.append(decisions)
    assert tables is not None
    shares = _best_division(problem, stem, tables, expired)
    return None if shares is None else _read_back(problem, layers, shares)


def _best_division(problem: Problem, stem: Stem, tables: Table, expired: Expired) -> dict[int, int] | None:
    """Divide the group below each parent, the most promising first; pods added per unit of the level."""
    rule, local, whole = problem.rules[stem.level], problem.objectives[stem.level], problem.objectives[0]
    weight, least_weight = (_first_word_weight(objective, stem.level) for objective in (local, whole))
    offsets, based = problem.tree.offsets[stem.level], problem.held[stem.level] > 0
    divisions: dict[bytes, tuple[int, Division]] = {}
    for index, parent in enumerate(stem.parents.tolist()):
        units = slice(offsets[parent], offsets[parent + 1])
        children = tables[:, units, : problem.missing + 1]
        division = Division(children, rule, problem.missing, weight, based[units])
        divisions.setdefault(stem.costs[:, index].tobytes() + children.tobytes(), (index, division))
    best, costs = None, infeasible((whole.words, 1))
    order = sorted(divisions.values(), key=lambda entry: entry[1].least)
    for index, division in order:
        if best is not None and stem.costs[0, index] + least_weight * division.least > costs[0, 0]:
            continue
        shares = apportion(division, expired)
        if shares is None:
            continue
        total = stem.costs[:, index] + convert(division.cost(shares), local, whole)
        if first_smallest(np.stack((costs[:, 0], total), axis=1)) == 1:
            start = int(offsets[stem.parents[index]])
            best, costs = {start + unit: count for unit, count in shares.items()}, total[:, None]
    return best


def _first_word_weight(objective: Objective, level: int) -> int:
    """The weight of a level's component in word 0, or 0 where it sits in a later word."""
    digit = objective.levels[level]
    return digit.weight if digit.word == 0 else 0


def _fill_one(problem: Problem, stem: Stem) -> NDArray[np.int64] | None:
    """Put the whole group on the nodes of one parent, by the closed forms."""
    local, whole = problem.objectives[stem.level], problem.objectives[0]
    best, costs = None, infeasible((whole.words, 1))
    for siblings in gather_siblings(problem.tree.offsets[stem.level], stem.parents):
        fill = fill_leaves(problem, siblings, np.array([problem.missing]))
        above = stem.costs[:, np.searchsorted(stem.parents, siblings.parents)]
        choices = np.concatenate((costs, convert(fill.table[:, :, 0], local, whole) + above), axis=1)
        choice = first_smallest(choices)
        if choice > 0:
            best, costs = (fill, choice - 1), choices[:, choice : choice + 1]
    if best is None:
        return None
    return _read_back(problem, [], dict(best[0].take_apart(best[1], problem.missing)))


def _parents(
    problem: Problem, level: int, units: NDArray[np.int64], tables: Table | None, expired: Expired
) -> tuple[Table, list[Decisions]]:
    """Tables of `units` of level - 1, with their own price, from those of `level` (None: the nodes)."""
    offsets, held = problem.tree.offsets[level], problem.held[level - 1]
    limits = np.minimum(problem.free[level - 1], problem.missing)
    decisions: list[Decisions] = []
    merged = units
    if tables is None:
        merged = units[held[units] > 0]
        for siblings in gather_siblings(offsets, units[held[units] == 0]):
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
    local, upper = problem.objectives[level], problem.objectives[level - 1]
    below = infeasible((upper.words, len(held), width))
    for decision in decisions:
        converted = convert(decision.table, local, upper)
        below[:, decision.siblings.parents, : converted.shape[2]] = converted
    return _own_costs(problem, level - 1, np.arange(len(held)), below), decisions


def _leaf_tables(problem: Problem, leaves: NDArray[np.int64]) -> Table:
    """[words, leaves, C]: the price of the nodes alone, infeasible above their capacity."""
    free = problem.free[-1][leaves]
    most = int(min(problem.missing, free.max(initial=0)))
    tables = np.zeros((problem.objectives[-1].words, len(leaves), most + 1), dtype=np.int64)
    tables[0][np.arange(most + 1) > free[:, None]] = INFEASIBLE
    return _own_costs(problem, problem.tree.depth - 1, leaves, tables)


def _own_costs(problem: Problem, level: int, units: NDArray[np.int64], below: Table) -> Table:
    """Add the price of the units themselves, and rule out counts that their level does not allow."""
    rule, size = problem.rules[level], problem.size
    held, free = problem.held[level][units], problem.free[level][units]
    counts = held[:, None] + np.arange(below.shape[2])  # [units, C]
    tables = below + problem.objectives[level].unit_costs(level, counts, (held + free)[:, None])
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
