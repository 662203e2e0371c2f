"""Dividing the group among the top units, where only one total is asked for.

Three ways, all exact. A bound on the number of used units (packing, partitions) leaves only few candidates:
of all units given c pods, one is among the K best for c, or could be swapped for one that is. Where units
spread, a Lagrangian bound leaves only counts near the even share. Otherwise everything is merged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.merge import Siblings, merge_siblings
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.problem import Problem
from scheduler_core.topology.tables import (
    Expired,
    OutOfBudget,
    Table,
    first_smallest,
    infeasible,
    keep_smaller,
)

Mask = NDArray[np.bool_]

# Tables kept for reading the decision back may not take more memory than this.
MOST_BYTES = 1 << 29


def apportion(problem: Problem, tables: Table, expired: Expired) -> dict[int, int] | None:
    """Pods added per top unit, from tables [words, units, C]; None when nothing is feasible."""
    rule, target = problem.rules[0], problem.missing
    tables = tables[:, :, : target + 1]
    feasible = tables[0] < INFEASIBLE
    if rule.contradictory:
        return None
    if target == 0 or problem.held[0].any():
        return _merge_all(problem, tables, expired)
    if rule.exact is not None:
        candidates = _best_units(tables, feasible, rule.exact, target)
        return _search(tables, candidates, target, rule.exact, expired)
    if rule.spread:
        return _near_even(problem, tables, expired)
    return _fewest(tables, feasible, target, expired)


def _fewest(tables: Table, feasible: Mask, target: int, expired: Expired) -> dict[int, int] | None:
    """Pack: guess how many units are used, search among the candidates, and check the guess."""
    largest = np.sort(_largest(feasible))[::-1]
    reachable = np.cumsum(largest)
    if reachable[-1] < target:
        return None
    guess = int(np.searchsorted(reachable, target)) + 1
    while True:
        shares = _search(tables, _best_units(tables, feasible, guess, target), target, None, expired)
        if shares is not None and len(shares) <= guess:
            return shares
        if guess >= len(largest):
            return shares
        guess = min(len(shares) if shares is not None else 2 * guess, len(largest))


def _largest(feasible: Mask) -> NDArray[np.int64]:
    """The largest feasible count of each unit, int64 [units]."""
    reverse = feasible[:, ::-1]
    return np.where(feasible.any(axis=1), feasible.shape[1] - 1 - reverse.argmax(axis=1), 0)


def _best_units(tables: Table, feasible: Mask, most_used: int, target: int) -> Mask:
    """bool [units, C]: entries that a best solution with at most `most_used` units needs to look at."""
    largest = np.sort(_largest(feasible))[::-1]
    lowest = max(1, target - int(largest[: most_used - 1].sum()))
    candidates = feasible.copy()
    candidates[:, :lowest] = False
    keep = np.zeros_like(candidates)
    units = len(candidates)
    if most_used >= units:
        return candidates
    needed = np.full(candidates.shape[1], most_used)  # [C]
    for word in tables:
        values = np.where(candidates, word, INFEASIBLE)[:, lowest:]
        rank = np.clip(needed[lowest:] - 1, 0, units - 1)
        bound = np.full(candidates.shape[1], -1)
        bound[lowest:] = np.take_along_axis(np.sort(values, axis=0), rank[None, :], axis=0)[0]
        keep |= candidates & (word < bound)
        candidates &= word == bound
        needed = most_used - keep.sum(axis=0)
    return keep | (candidates & (np.cumsum(candidates, axis=0) <= needed))


def _search(
    tables: Table, keep: Mask, target: int, exact: int | None, expired: Expired
) -> dict[int, int] | None:
    """Dynamic programme over the units that have kept entries; `exact` units are used if it is given.

    With `exact`, pods are counted above the lowest kept count of a unit, which keeps the tables short.
    """
    units = np.flatnonzero(keep.any(axis=1)).tolist()
    used = step = base = 0
    if exact is not None:
        if len(units) < exact:
            return None
        used, step, base = exact, 1, int(keep.any(axis=0).argmax())
    rest = target - used * base
    if rest < 0:
        return None
    best = infeasible((len(tables), used + 1, rest + 1))
    best[0, 0, 0] = 0
    if best.nbytes * len(units) > MOST_BYTES:
        raise OutOfBudget
    history: list[Table] = []
    for unit in units:
        if expired():
            raise OutOfBudget
        history.append(best)
        best = best.copy()
        for extra in (np.flatnonzero(keep[unit, : base + rest + 1]) - base).tolist():
            before = history[-1][:, : used + 1 - step, : rest + 1 - extra]
            keep_smaller(best[:, step:, extra:], before + tables[:, unit, base + extra, None, None])
    if best[0, used, rest] >= INFEASIBLE:
        return None
    shares: dict[int, int] = {}
    for unit, before in zip(reversed(units), reversed(history), strict=True):
        if (best[:, used, rest] != before[:, used, rest]).any():
            extras = np.flatnonzero(keep[unit, : base + rest + 1]) - base
            costs = tables[:, unit, base + extras] + before[:, used - step, rest - extras]
            extra = int(extras[first_smallest(costs)])
            shares[unit] = base + extra
            used, rest = used - step, rest - extra
        best = before
    return shares


def _near_even(problem: Problem, tables: Table, expired: Expired) -> dict[int, int] | None:
    """Spread: keep the counts whose Lagrangian price is within the gap, and prove the gap afterwards."""
    target, counts = problem.missing, np.arange(tables.shape[2])
    feasible = tables[0] < INFEASIBLE
    largest = np.sort(_largest(feasible))
    if largest.sum() < target:
        return None
    weight = problem.objective.levels[0].weight
    price = weight * (2 * _water(largest, target) + 1)
    if price * int(largest[-1]) > INFEASIBLE // 2:
        return _merge_all(problem, tables, expired)  # the bound itself would not fit an int64
    reduced = tables[0] - price * counts
    lowest = np.where(feasible, reduced, INFEASIBLE).min(axis=1)
    bound = int(lowest.sum()) + price * target
    excess = np.where(feasible, reduced - lowest[:, None], INFEASIBLE)
    gap = 2 * weight - 1  # a count next to the even two costs two squares more
    while True:
        keep = excess <= gap
        shares = _merge_windows(problem, tables, keep, expired)
        if shares is None:
            if keep.sum() == feasible.sum():
                return None
            gap *= 8
            continue
        proven = sum(int(tables[0, unit, shares.get(unit, 0)]) for unit in range(len(feasible))) - bound
        if proven <= gap:
            return shares
        gap = proven


def _water(largest: NDArray[np.int64], target: int) -> int:
    """The level up to which `target` pods fill units of the given sizes (ascending) evenly."""
    units = len(largest)
    below = np.concatenate(([0], np.cumsum(largest)[:-1]))
    levels = (target - below) // (units - np.arange(units))
    short = np.flatnonzero(levels < largest)
    return int(levels[short[0]]) if len(short) else int(largest[-1])


def _merge_windows(problem: Problem, tables: Table, keep: Mask, expired: Expired) -> dict[int, int] | None:
    """Merge only the kept entries: every unit starts at its lowest kept count."""
    start = keep.argmax(axis=1)
    rest = problem.missing - int(start.sum())
    if rest < 0:
        return None
    width = int((_largest(keep) - start).max()) + 1
    reach = start[:, None] + np.arange(width)  # [units, width]
    inside = reach < keep.shape[1]
    reach = np.where(inside, reach, 0)
    rows = np.arange(len(keep))[:, None]
    windows = tables[:, rows, reach]
    windows[0][~(inside & keep[rows, reach])] = INFEASIBLE
    shares = {unit: int(count) for unit, count in enumerate(start.tolist()) if count}
    merged = _raise_some(windows, rest) if width <= 2 else _merge(problem, windows, rest, expired)
    if merged is None:
        return None
    for unit, count in merged.items():
        shares[unit] = shares.get(unit, 0) + count
    return shares


def _raise_some(windows: Table, number: int) -> dict[int, int] | None:
    """Windows of one or two counts, [words, units, 1 or 2]: give one more pod to the `number` cheapest."""
    if number == 0:
        return {}
    if windows.shape[2] == 1:
        return None
    able = np.flatnonzero(windows[0, :, 1] < INFEASIBLE)
    if len(able) < number:
        return None
    increase = windows[:, able, 1] - windows[:, able, 0]
    return dict.fromkeys(able[np.lexsort(increase[::-1])[:number]].tolist(), 1)


def _merge_all(problem: Problem, tables: Table, expired: Expired) -> dict[int, int] | None:
    return _merge(problem, tables, problem.missing, expired)


def _merge(problem: Problem, tables: Table, target: int, expired: Expired) -> dict[int, int] | None:
    siblings = Siblings(np.array([0]), np.arange(tables.shape[1])[None, :])
    based = problem.held[0] > 0
    merge = merge_siblings(tables, siblings, problem.rules[0].exact, based, target, expired)
    if target >= merge.table.shape[2] or merge.table[0, 0, target] >= INFEASIBLE:
        return None
    return dict(merge.take_apart(0, target))
