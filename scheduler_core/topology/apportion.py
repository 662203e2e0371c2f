"""Dividing pods among the children of one parent, where only one total is asked for.

Three ways, all exact. Where the number of used units is bounded (packing, partitions) the best few are
searched. Where units spread, a Lagrangian bound leaves only counts near the even share. Otherwise everything
is merged.
"""

from __future__ import annotations

import numpy as np

from scheduler_core.topology.division import Division, Mask, fewest_units, largest_counts, water_level
from scheduler_core.topology.merge import Siblings, merge_siblings
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.tables import Expired, Table
from scheduler_core.topology.unit_search import best_units, search

# Up to so many used units are searched as an exact number, on shorter tables.
FEW_UNITS = 3


def apportion(division: Division, expired: Expired) -> dict[int, int] | None:
    """Pods added per child, by position; None when nothing is feasible. Raises OutOfBudget."""
    rule = division.rule
    if rule.contradictory:
        return None
    if division.target == 0 or division.based.any():
        return _merge(division, division.tables, rule.exact, division.target, expired)
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
