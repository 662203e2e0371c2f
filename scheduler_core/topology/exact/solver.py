"""Computes the optimal placement of a group on a tree, level by level from the nodes up, then back down.

The cost of a placement is a sum over units and the pods are equal, so this is a knapsack on a tree and its
answer is the optimum of the whole objective for every mix of rules. Nodes are priced in closed form, inner
units by merging tables, and the root, where only one count is asked for, by a pruned search.

Where a level packs and some unit has room for all pods, every optimum uses one unit of that level. So only
such units, and only the count of the whole group, are looked at there: the stem of the placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.exact.apportion import Division, apportion
from scheduler_core.topology.exact.leaves import LeafFill, fill_leaves
from scheduler_core.topology.exact.merge import Siblings, gather_siblings, merge_siblings
from scheduler_core.topology.exact.tables import Expired, Table, first_smallest, infeasible
from scheduler_core.topology.objective import INFEASIBLE, Objective, convert
from scheduler_core.topology.problem import Problem


@dataclass(frozen=True, eq=False)
class Stem:
    """The units that may hold the whole group, and the first level where it may branch.

    level: the level below `parents`, which are units of the level above it ([0], the root, for level 0).
    costs: int64 [words, parents], the price of each parent and of the units above it, in the
    objective of level 0. forced: whether strict rules allow only a stem of this length.
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
    if problem.missing > problem.most:
        return None
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
    wanted = _units_below(problem, stem)
    tables = _leaf_tables(problem, wanted[-1]) if level == depth - 1 else None
    for child_level in reversed(range(level + 1, depth)):
        tables, decisions = _parents(problem, child_level, wanted[child_level - 1 - level], tables, expired)
        layers.append(decisions)
    assert tables is not None
    shares = _best_division(problem, stem, tables, expired)
    return None if shares is None else _read_back(problem, layers, shares)


def _units_below(problem: Problem, stem: Stem) -> list[NDArray[np.int64]]:
    """The units below the stem's parents, ascending, for each level from the stem's on."""
    if stem.level == 0:
        return [np.arange(len(units)) for units in problem.tree.units]
    below = np.isin(problem.tree.parents[stem.level], stem.parents)
    wanted = [np.flatnonzero(below)]
    for parents in problem.tree.parents[stem.level + 1 :]:
        below = below[parents]
        wanted.append(np.flatnonzero(below))
    return wanted


def _best_division(problem: Problem, stem: Stem, tables: Table, expired: Expired) -> dict[int, int] | None:
    """Divide the group below each parent, the most promising first; pods added per unit of the level."""
    local, whole = problem.objectives[stem.level], problem.objectives[0]
    weight, least_weight = (_first_word_weight(objective, stem.level) for objective in (local, whole))
    best: dict[int, int] | None = None
    rank: tuple[int, ...] = ()
    for index, division in _divisions(problem, stem, tables, weight):
        if rank and stem.costs[0, index] + least_weight * division.least > rank[0]:
            continue
        shares = apportion(division, expired)
        if shares is None:
            continue
        total = stem.costs[:, index] + convert(division.cost(shares), local, whole)
        found = (*total.tolist(), index)
        if not rank or found < rank:
            start = int(problem.tree.offsets[stem.level][stem.parents[index]])
            best, rank = {start + unit: count for unit, count in shares.items()}, found
    return best


def _divisions(problem: Problem, stem: Stem, tables: Table, weight: int) -> list[tuple[int, Division]]:
    """The divisions below each parent (by place in the stem), most promising first, equal ones once."""
    rule, offsets = problem.rules[stem.level], problem.tree.offsets[stem.level]
    based, target = problem.held[stem.level] > 0, problem.missing
    if len(stem.parents) == 1:
        units = slice(offsets[stem.parents[0]], offsets[stem.parents[0] + 1])
        return [(0, Division(tables[:, units, : target + 1], rule, target, weight, based[units]))]
    divisions: dict[bytes, tuple[int, Division]] = {}
    for index, parent in enumerate(stem.parents.tolist()):
        units = slice(offsets[parent], offsets[parent + 1])
        children = tables[:, units, : target + 1]
        key = stem.costs[:, index].tobytes() + children.tobytes()
        divisions.setdefault(key, (index, Division(children, rule, target, weight, based[units])))
    return sorted(divisions.values(), key=lambda entry: entry[1].least)


def _first_word_weight(objective: Objective, level: int) -> int:
    """The weight of a level's component in word 0, or 0 where it sits in a later word."""
    digit = objective.levels[level]
    return digit.weight if digit.word == 0 else 0


def _fill_one(problem: Problem, stem: Stem) -> NDArray[np.int64] | None:
    """Put the whole group on the nodes of one parent, by the closed forms."""
    local, whole = problem.objectives[stem.level], problem.objectives[0]
    best: LeafFill | None = None
    rank: tuple[int, ...] = ()
    row = 0
    for siblings in gather_siblings(problem.tree.offsets[stem.level], stem.parents):
        fill = fill_leaves(problem, siblings, np.array([problem.missing]))
        costs = convert(fill.table[:, :, 0], local, whole)
        costs = costs + stem.costs[:, np.searchsorted(stem.parents, siblings.parents)]
        choice = first_smallest(costs)
        found = (*costs[:, choice].tolist(), int(siblings.parents[choice]))
        if choice >= 0 and (not rank or found < rank):
            best, rank, row = fill, found, choice
    return None if best is None else _read_back(problem, [], dict(best.take_apart(row, problem.missing)))


def _parents(
    problem: Problem, level: int, units: NDArray[np.int64], tables: Table | None, expired: Expired
) -> tuple[Table, list[Decisions]]:
    """Tables of `units` of level - 1, with their own price, from those of `level` (None: the nodes)."""
    offsets, held = problem.tree.offsets[level], problem.held[level - 1]
    limits = np.minimum(problem.limits[level - 1], problem.missing)
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
    limits = problem.limits[-1][leaves]
    most = int(min(problem.missing, limits.max(initial=0)))
    tables = np.zeros((problem.objectives[-1].words, len(leaves), most + 1), dtype=np.int64)
    tables[0][np.arange(most + 1) > limits[:, None]] = INFEASIBLE
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
