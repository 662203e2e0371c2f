"""Computes cost tables of the units just above the nodes, from closed forms.

Every rule leaves one multiset of node counts that is best for c pods in one unit, up to permutation:
- pack fills k nodes, k the fewest that can hold c, as unequally as possible: the roomiest to the brim, then
  one partly, the rest at the minimum (this vector majorizes all others, so it has the most pairs together);
- spread uses k nodes, k the most that the minimum allows, as evenly as possible: water filling;
- partitions fix k.
A factor turns counts into multiples. The nodes that carry the counts are the ones with the fewest slots.
Rows are units, nodes of a row stand in ascending order of slots; unusable nodes (and padding) come first
with width 0. "Width" is how many multiples of the factor a node can take. All c are priced at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.exact.merge import Siblings
from scheduler_core.topology.exact.tables import Table
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.problem import Problem

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Sorted nodes of several units. [rows, n]: width, order (column before sorting).

    prefixes, [rows, n + 1]: slots, widths and their squares summed from the narrowest node on.
    below: [rows, widest + 2], the number of nodes narrower than the column index. first: [rows], usable from.
    """

    width: Ints
    order: Ints
    slots: Ints
    widths: Ints
    squares: Ints
    below: Ints
    first: Ints

    @property
    def n(self) -> int:
        return self.width.shape[1]

    @property
    def widest(self) -> int:
        return self.below.shape[1] - 2

    def top(self, prefix: Ints, count: Ints) -> Ints:
        """Sum over the `count` widest nodes; count is [rows, c]."""
        return prefix[:, -1:] - pick(prefix, self.n - count)


@dataclass(frozen=True, eq=False)
class LeafCosts:
    """[rows, c]: whether c pods fit, how many nodes they use, the sum of squares, the slots of those."""

    feasible: NDArray[np.bool_]
    used: Ints
    squares: Ints
    slots: Ints


def sort_rows(slots: Ints, rule: LevelRule, size: int) -> Rows:
    """Prepare [rows, n] free slots per node, 0 for padding."""
    width = np.minimum(slots, rule.highest(size)) // rule.step
    usable = width >= rule.lowest // rule.step
    width, kept = np.where(usable, width, 0), np.where(usable, slots, 0)
    order = np.argsort(kept, axis=1, kind="stable")
    width, kept = np.take_along_axis(width, order, axis=1), np.take_along_axis(kept, order, axis=1)
    rows, n = width.shape
    widest = int(width.max(initial=0))
    cells = (np.arange(rows)[:, None] * (widest + 2) + width).ravel()
    histogram = np.bincount(cells, minlength=rows * (widest + 2)).reshape(rows, widest + 2)
    below = np.cumsum(histogram, axis=1) - histogram
    return Rows(width, order, _sums(kept), _sums(width), _sums(width * width), below, n - usable.sum(axis=1))


def price_rows(rows: Rows, rule: LevelRule, counts: Ints) -> LeafCosts:
    """Price `counts` pods, [c] ascending and positive, on every row."""
    step, least = rule.step, rule.lowest // rule.step
    multiples = np.broadcast_to(counts // step, (len(rows.width), len(counts)))
    used = _nodes_used(rows, rule, multiples)
    top = rows.top(rows.widths, used)
    feasible = (counts % step == 0) & (used > 0) & (used * least <= multiples) & (multiples <= top)
    target = np.where(feasible, multiples, used * least)
    target = np.minimum(target, top)
    squares, slots = (_spread if rule.spread else _pack)(rows, least, target, used)
    return LeafCosts(feasible, used, squares * (step * step), slots)


def fill_row(slots: list[int], rule: LevelRule, size: int, count: int) -> dict[int, int]:
    """The pods per node, by column, for `count` pods on one unit whose free slots can take them."""
    step, highest, least = rule.step, rule.highest(size), rule.lowest // rule.step
    order = sorted((free, column) for column, free in enumerate(slots) if free >= rule.lowest)
    widths = [min(free, highest) // step for free, _ in order]
    multiples = count // step
    chosen: dict[int, int] = {}
    next_free: dict[int, int] = {}
    shares = _even_shares if rule.spread else _full_shares
    for share in shares(widths[len(widths) - _used(widths, rule, multiples) :], least, multiples):
        start = bisect_left(widths, share)
        place = next_free.get(start, start)
        while place in chosen:
            place += 1
        chosen[place] = share * step
        next_free[start] = place + 1
    return {order[place][1]: share for place, share in chosen.items()}


def _used(widths: list[int], rule: LevelRule, multiples: int) -> int:
    """The number of used nodes; widths ascend. The same as `_nodes_used` for a single feasible count."""
    if rule.exact is not None:
        return rule.exact
    if rule.spread:
        return min(len(widths), multiples // (rule.lowest // rule.step))
    used = 0
    while multiples > 0:
        used += 1
        multiples -= widths[-used]
    return used


def _full_shares(widths: list[int], least: int, count: int) -> list[int]:
    """Largest first: each node as full as the minimum of the others allows; widths ascend."""
    spare = count - least * len(widths)
    shares = []
    for width in reversed(widths):
        extra = min(spare, width - least)
        spare -= extra
        shares.append(least + extra)
    return shares


def _even_shares(widths: list[int], least: int, count: int) -> list[int]:
    """Largest first: water filling over the widths, which ascend."""
    del least
    shares: list[int] = []
    for place, width in enumerate(widths):
        share = min(width, count // (len(widths) - place))
        count -= share
        shares.append(share)
    return sorted(shares, reverse=True)


def _nodes_used(rows: Rows, rule: LevelRule, multiples: Ints) -> Ints:
    usable = (rows.n - rows.first)[:, None]
    if rule.exact is not None:
        wanted = np.full_like(multiples, rule.exact)
        return np.where(wanted <= usable, wanted, 0)
    if rule.spread:
        return np.minimum(usable, multiples // (rule.lowest // rule.step))
    tops = rows.widths[:, -1:] - rows.widths[:, ::-1]  # [rows, n + 1], sums of the widest 0 .. n
    needed = _search(tops, multiples, "left")
    return np.where(needed <= usable, needed, 0)


def _pack(rows: Rows, least: int, target: Ints, used: Ints) -> tuple[Ints, Ints]:
    spare = target - used * least
    tops = rows.widths[:, -1:] - rows.widths[:, ::-1]
    extras = tops - least * np.arange(rows.n + 1)
    np.maximum.accumulate(extras, axis=1, out=extras)
    full = np.minimum(_search(extras, spare, "right") - 1, used)
    rest = used - full
    partial = np.where(rest > 0, least + spare - pick(extras, full), 0)
    squares: Ints = rows.top(rows.squares, full) + partial * partial + np.maximum(rest - 1, 0) * least * least
    return squares, _packed_slots(rows, full, rest, partial)


def _packed_slots(rows: Rows, full: Ints, rest: Ints, partial: Ints) -> Ints:
    """Slots of the full nodes, the partial one and the `rest - 1` minimal ones, as narrow as possible.

    Nodes wider than the last full one are all full; of its own class the tightest ones are. The others come
    from the pool of what remains, in ascending order.
    """
    last = pick(rows.width, np.minimum(rows.n - full, rows.n - 1))
    none = full == 0
    start = np.where(none, rows.n, pick(rows.below, last))
    end = np.where(none, rows.n, pick(rows.below, last + 1))
    taken = end - (rows.n - full)

    def pool(count: Ints) -> Ints:
        low = np.minimum(first + count, start)
        high = np.minimum(start + taken + np.maximum(first + count - start, 0), rows.n)
        return at(low) - at(first) + at(high) - at(start + taken)

    def at(index: Ints) -> Ints:
        return pick(rows.slots, index)

    first = np.broadcast_to(rows.first[:, None], full.shape)
    full_slots = rows.slots[:, -1:] - at(end) + at(start + taken) - at(start)
    wide_enough = np.minimum(pick(rows.below, np.minimum(partial, rows.widest)), start)
    place = np.minimum(np.where(wide_enough < start, wide_enough, start + taken), rows.n - 1)
    alone = at(place + 1) - at(place)
    if rest.max(initial=0) > 1:
        within = wide_enough - first < rest
        alone = np.where(within, pool(rest), pool(np.maximum(rest - 1, 0)) + alone)
    return full_slots + np.where(rest == 0, 0, alone)


def _spread(rows: Rows, least: int, target: Ints, used: Ints) -> tuple[Ints, Ints]:
    del least
    top = rows.top(rows.widths, used)

    def level_and_above(water: Ints) -> tuple[Ints, Ints]:
        above: Ints = np.minimum(used, rows.n - pick(rows.below, water))
        return top - rows.top(rows.widths, above) + above * water, above

    low, high = np.zeros_like(target), np.full_like(target, rows.widest)
    for _ in range(int(rows.widest).bit_length()):
        middle = (low + high + 1) // 2
        fits = level_and_above(middle)[0] <= target
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    filled, above = level_and_above(low)
    raised = target - filled
    squares = rows.top(rows.squares, used) - rows.top(rows.squares, above)
    squares = squares + (above - raised) * low * low + raised * (low + 1) * (low + 1)
    return squares, _spread_slots(rows, used, low, raised)


def _spread_slots(rows: Rows, used: Ints, water: Ints, raised: Ints) -> Ints:
    """Slots of the nodes under water level: the tightest that can carry `raised` counts above it."""

    def at(index: Ints) -> Ints:
        return pick(rows.slots, index)

    narrowest = pick(rows.width, np.minimum(rows.n - used, rows.n - 1))
    start = pick(rows.below, narrowest)
    end = pick(rows.below, narrowest + 1)
    of_class = used - (rows.n - end)
    brimful = rows.slots[:, -1:] - at(end) + at(np.maximum(start + of_class, start)) - at(start)
    at_level = pick(rows.below, water)
    over = pick(rows.below, water + 1)
    equal = np.minimum(used - raised, over - at_level)
    even = at(at_level + equal) - at(at_level) + at(np.minimum(over + used - equal, rows.n)) - at(over)
    return np.where(narrowest < water, brimful, even)


def _sums(values: Ints) -> Ints:
    sums = np.zeros((len(values), values.shape[1] + 1), dtype=np.int64)  # [rows, n + 1]
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def pick(values: Ints, index: Ints) -> Ints:
    """values[row, index[row, i]] for every row and i: both [rows, ...]."""
    rows, n = values.shape
    return values.take(index + np.arange(0, rows * n, n)[:, None]) if n else np.zeros_like(index)


def _search(ascending: Ints, wanted: Ints, side: str) -> Ints:
    """Row-wise searchsorted: ascending [rows, n], wanted [rows, c], both non-negative."""
    rows, n = ascending.shape
    gap = int(max(ascending.max(initial=0), wanted.max(initial=0))) + 1
    shift = np.arange(rows)[:, None] * gap
    found = np.searchsorted((ascending + shift).ravel(), (wanted + shift).ravel(), side=side)  # type: ignore[call-overload]
    return found.reshape(wanted.shape) - np.arange(rows)[:, None] * n


# From about this many units on, it pays to look for units with the same slots.
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
