"""The best few of the children of one parent: which of them to look at, and a dynamic programme over those.

Where the number of used units is bounded only few entries matter: of all units given c pods, one is among the
K best for c, or could be swapped for one that is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.division import Division, Mask
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.tables import (
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
        rank = np.clip(needed[lowest:] - 1, 0, units - 1)
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
    """The best two of the units, by looking at all pairs at once: base pods each, and rest more together."""
    costs = tables[:, units, base : base + rest + 1].copy()
    costs[0][~keep[units, base : base + rest + 1]] = INFEASIBLE
    width = costs.shape[2]
    if width <= rest:
        costs = np.pad(costs, ((0, 0), (0, 0), (0, rest + 1 - width)), constant_values=INFEASIBLE)
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
