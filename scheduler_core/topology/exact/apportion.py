"""Divides pods among the children of one parent, where only one total is asked for.

Three ways, all exact. Where the number of used units is bounded (packing, partitions) the best few units are
searched: of all units given c pods, one is among the K best for c, or could be swapped for one that is. Where
units spread, a Lagrangian bound leaves only counts near the even share. Otherwise all tables are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.exact.merge import Siblings, merge_siblings
from scheduler_core.topology.exact.tables import (
    MOST_BYTES,
    MOST_CELLS,
    Expired,
    OutOfBudget,
    Table,
    first_smallest,
    infeasible,
    keep_smaller,
    least_of_shifts,
)
from scheduler_core.topology.objective import INFEASIBLE

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
    """The least number of these units that is enough; one more than there are if all are not enough."""
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


def best_units(division: Division, most_used: int) -> Mask:
    """bool [units, C]: entries that a best solution with at most `most_used` units needs to look at."""
    largest = np.sort(division.largest)[::-1]
    lowest = max(1, division.target - int(largest[: most_used - 1].sum()))
    candidates = division.feasible.copy()
    candidates[:, :lowest] = False
    keep = np.zeros_like(candidates)
    units = len(candidates)
    if most_used >= units:
        return candidates
    needed = np.full(candidates.shape[1], most_used)  # [C]
    for word in division.tables:
        values = np.where(candidates, word, INFEASIBLE)[:, lowest:]
        rank = np.maximum(needed[lowest:] - 1, 0)
        bound = np.full(candidates.shape[1], -1)
        bound[lowest:] = np.take_along_axis(np.sort(values, axis=0), rank[None, :], axis=0)[0]
        keep |= candidates & (word < bound)
        candidates &= word == bound
        needed = most_used - keep.sum(axis=0)
    return keep | (candidates & (np.cumsum(candidates, axis=0) <= needed))


def search(division: Division, keep: Mask, exact: int | None, expired: Expired) -> dict[int, int] | None:
    """Dynamic programme over the units that have kept entries; `exact`: how many of them are used, or None.

    Where that is fixed, pods are counted above the lowest kept count of a unit, which keeps the tables short.
    """
    tables = division.tables
    used = step = base = 0
    if exact is not None:
        used, step, base = exact, 1, int(keep.any(axis=0).argmax())
    rest = division.target - used * base
    units = np.flatnonzero(keep[:, : max(0, base + rest + 1)].any(axis=1)).tolist()
    if rest < 0 or len(units) < used:
        return None
    if expired():
        raise OutOfBudget
    if used == 2 and len(units) ** 2 * (rest + 1) <= MOST_CELLS:
        return _pair(tables, keep, units, base, rest)
    best = infeasible((len(tables), used + 1, rest + 1))
    best[0, 0, 0] = 0
    if best.nbytes * len(units) > MOST_BYTES:
        raise OutOfBudget
    history: list[Table] = []
    for unit in units:
        if expired():
            raise OutOfBudget
        history.append(best)
        extras = np.flatnonzero(keep[unit, : base + rest + 1]) - base
        best = _with_unit(best, tables[:, unit, base + extras], extras, step)
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


def _pair(tables: Table, keep: Mask, units: list[int], base: int, rest: int) -> dict[int, int] | None:
    """The best two of the units, from all pairs at once: `base` pods each, and `rest` more together.

    The tables reach that far: each of the two takes at least what the largest unit cannot (`best_units`).
    """
    costs = tables[:, units, base : base + rest + 1].copy()
    costs[0][~keep[units, base : base + rest + 1]] = INFEASIBLE
    pairs = costs[:, :, None] + costs[:, None, :, ::-1]  # [words, first, second, extra of the first]
    pairs[0, ~np.tri(len(units), k=-1, dtype=np.bool_).T] = INFEASIBLE
    choice = first_smallest(pairs.reshape(len(pairs), -1))
    if choice < 0:
        return None
    first, second, extra = np.unravel_index(choice, pairs.shape[1:])
    return {units[first]: base + int(extra), units[second]: base + rest - int(extra)}


def _with_unit(before: Table, costs: Table, extras: NDArray[np.int64], step: int) -> Table:
    """The table [words, used + 1, rest + 1] with one more unit, that costs so much for so many extra pods.

    Of the last row only its last entry is asked for; row 0 has only its first. Without a number of used units
    (step 0) there is one row.
    """
    best = before.copy()
    used, width = before.shape[1] - 1, before.shape[2]
    last = before[:, used - step, width - 1 - extras] + costs
    choice = first_smallest(last)
    if choice >= 0:
        keep_smaller(best[:, used, width - 1 :], last[:, choice, None])
    if used > 1:
        alone = best[:, 1, extras]
        keep_smaller(alone, costs)
        best[:, 1, extras] = alone
    if used > 2:
        keep_smaller(best[:, 2:used], least_of_shifts(before[:, 1 : used - 1], costs, extras, width))
    elif not step:
        keep_smaller(best, least_of_shifts(before, costs, extras, width))
    return best


# Up to this many used units, each number is searched on its own, with shorter tables.
FEW_UNITS = 3


def apportion(division: Division, expired: Expired) -> dict[int, int] | None:
    """Pods added per child, by position; None when nothing is feasible. Raises OutOfBudget."""
    rule = division.rule
    if rule.contradictory:
        return None
    if division.based.any():
        return _merge(division, division.tables, rule.exact, division.target, expired)
    if division.target == 0:
        return {}  # rules are about used parents
    if int(division.largest.sum()) < division.target:
        return None
    if rule.spread:
        return _even(division, expired)
    return _fewest(division, expired) if rule.exact is None else _unbounded(division, expired)


def _fewest(division: Division, expired: Expired) -> dict[int, int] | None:
    """Pack: guess how many units are used, search among the candidates, and check the guess."""
    units = len(division.largest)
    guess = fewest_units(division.largest, division.target)
    while guess < units and guess <= FEW_UNITS:
        shares = search(division, best_units(division, guess), guess, expired)
        if shares is not None:
            return shares
        guess += 1
    while True:
        shares = search(division, best_units(division, guess), None, expired)
        if guess >= units or (shares is not None and len(shares) <= guess):
            return shares
        guess = min(len(shares) if shares is not None else 2 * guess, units)


def _even(division: Division, expired: Expired) -> dict[int, int] | None:
    """Spread: keep the counts whose Lagrangian price is within the gap, and prove the gap afterwards.

    Pods are sold at the price of one more at the even share. What an entry costs above the cheapest choice
    at that price bounds from below what a placement with that entry costs above the bound.
    """
    tables, target, weight, exact = division.tables, division.target, division.weight, division.rule.exact
    usable = division.feasible if exact is None else division.feasible & (np.arange(tables.shape[2]) > 0)
    sold = np.sort(division.largest)[-exact:] if exact else np.sort(division.largest)
    price = weight * (2 * water_level(sold, target) + 1)
    if price == 0 or price * int(sold[-1]) > INFEASIBLE // 2:
        return _unbounded(division, expired)  # the bound itself would not fit an int64
    reduced = np.where(usable, tables[0] - price * np.arange(tables.shape[2]), INFEASIBLE)
    lowest = reduced.min(axis=1)
    if exact is not None:
        ascending = np.sort(lowest)[:exact]
        if len(ascending) < exact or ascending[-1] >= INFEASIBLE:
            return None
        bound, lowest = int(ascending.sum()), np.maximum(lowest, ascending[-1])
    else:
        bound = int(lowest.sum())
    excess = np.where(usable, reduced - lowest[:, None], INFEASIBLE)
    return _prove(division, excess, bound + price * target, expired)


def _prove(division: Division, excess: Table, bound: int, expired: Expired) -> dict[int, int] | None:
    """Search entries within a gap above the bound, and widen it until the answer lies within it."""
    gap = division.weight - 1  # all that the less important components can differ by
    most = int(excess[excess < INFEASIBLE].max(initial=0))
    while True:
        keep = excess <= gap
        exact = division.rule.exact
        if exact is None or exact == np.count_nonzero(keep.any(axis=1)):
            shares = _merge_windows(division, keep, expired)
        else:
            shares = search(division, keep & best_units(division, exact), exact, expired)
        if shares is None:
            if gap >= most:
                return None
            gap = 8 * gap + 8
            continue
        proven = int(division.cost(shares)[0]) - bound
        if proven <= gap:
            return shares
        gap = proven


def _unbounded(division: Division, expired: Expired) -> dict[int, int] | None:
    if division.rule.exact is None:
        return _merge(division, division.tables, None, division.target, expired)
    return search(division, best_units(division, division.rule.exact), division.rule.exact, expired)


def _merge_windows(division: Division, keep: Mask, expired: Expired) -> dict[int, int] | None:
    """Merge only the kept entries: every unit that has some starts at its lowest kept count."""
    start = keep.argmax(axis=1)
    rest = division.target - int(start.sum())
    if rest < 0:
        return None
    width = int((largest_counts(keep) - start).max()) + 1
    reach = start[:, None] + np.arange(width)  # [units, width]
    inside = reach < keep.shape[1]
    reach = np.where(inside, reach, 0)
    rows = np.arange(len(keep))[:, None]
    windows = division.tables[:, rows, reach]
    windows[0][~(inside & keep[rows, reach])] = INFEASIBLE
    shares = {unit: int(count) for unit, count in enumerate(start.tolist()) if count}
    if width <= 2:
        merged = _raise_some(windows, rest)
    else:
        windows[:, ~keep.any(axis=1), 0] = 0
        merged = _merge(division, windows, None, rest, expired)
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


def _merge(
    division: Division, tables: Table, exact: int | None, target: int, expired: Expired
) -> dict[int, int] | None:
    siblings = Siblings(np.zeros(1, dtype=np.int64), np.arange(tables.shape[1])[None, :])
    merge = merge_siblings(tables, siblings, exact, division.based, target, expired)
    if target >= merge.table.shape[2] or merge.table[0, 0, target] >= INFEASIBLE:
        return None
    return dict(merge.take_apart(0, target))
