"""Computes the objective of a placement as integers that add up over units, most important component first.

Components, most important first: for every level from the top, the used units (pack) or the sum of squared
counts (spread); then the number of pairs that pack levels split (the fewer, the more concentrated); then
the slots of the used units (the fewer, the tighter the fit). Each component has a proven upper bound, so
neighbouring components share one int64 word as digits of a mixed-radix number; what does not fit one word
takes the next. A cost is an int64 array whose first axis is the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.tree import Tree

# Twice this still fits an int64, so two infeasible costs may be added without a check.
INFEASIBLE = (1 << 62) - 1

# More slots than this on one node do not matter for the tightest fit; the bound keeps the components small.
MOST_SLOTS = 1 << 20


@dataclass(frozen=True)
class Digit:
    """The position of a component: the word, the weight of one in it, and a bound above all its values."""

    word: int
    weight: int
    radix: int


@dataclass(frozen=True, eq=False)
class Objective:
    """The prices of units. levels[l], split and slots are the digits of the components.

    An objective may cover the lower levels only, for the subtrees below any one unit: smaller bounds, fewer
    words. The digits of the levels above are then always 0.
    """

    size: int
    rules: Rules
    levels: tuple[Digit, ...]
    split: Digit
    slots: Digit
    words: int

    def unit_costs(
        self, level: int, counts: NDArray[np.int64], rooms: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Cost of units with `counts` pods (any shape) out of `rooms` slots (broadcast): [words, *shape]."""
        spread = self.rules[level].spread
        used = counts > 0
        costs = np.zeros((self.words, *counts.shape), dtype=np.int64)  # [words, ...]
        digit = self.levels[level]
        costs[digit.word] += digit.weight * (counts * counts if spread else used)
        if not spread:
            costs[self.split.word] += self.split.weight * (counts * (self.size - counts))
        costs[self.slots.word] += self.slots.weight * np.where(used, rooms, 0)
        return costs

    @property
    def digits(self) -> tuple[Digit, ...]:
        """All components, most important first."""
        return (*self.levels, self.split, self.slots)


def build_objectives(
    tree: Tree, rules: Rules, size: int, rooms: Sequence[NDArray[np.int64]]
) -> tuple[Objective, ...]:
    """For each level the objective of `size` pods that tables of this level are written in.

    rooms[l]: int64 [units of l], the most pods of the group a unit can hold. Where one word is enough for the
    whole tree, all are the same.
    """
    whole = _objective(tree, rules, size, rooms, 0)
    if whole.words == 1:
        return (whole,) * tree.depth
    return (whole, *(_objective(tree, rules, size, rooms, level) for level in range(1, tree.depth)))


def _objective(
    tree: Tree, rules: Rules, size: int, rooms: Sequence[NDArray[np.int64]], top: int
) -> Objective:
    """The objective of what lies below any one unit of level top - 1 (the root for 0)."""
    room = int(rooms[top - 1].max(initial=0)) if top else int(rooms[0].sum())
    most = min(size, room)
    bounds = [0] * top
    slots, ends = 0, np.array([0, 1]) if top == 0 else np.arange(len(tree.units[top - 1]) + 1)
    for level in range(top, tree.depth):
        ends = tree.offsets[level][ends]
        largest = int(rooms[level].max(initial=0))
        units = int(np.diff(ends).max(initial=0))
        bounds.append(most * min(most, largest) if rules[level].spread else min(most, units))
        slots += min(room, most * largest)
    bounds.append(sum(not rule.spread for rule in rules[top:]) * most * size)
    bounds.append(slots)
    digits, words = packed_digits(bounds)
    return Objective(size, rules, digits[:-2], digits[-2], digits[-1], words)


def convert(costs: NDArray[np.int64], source: Objective, target: Objective) -> NDArray[np.int64]:
    """Costs [words, ...] of one objective written in another that bounds every component at least as high."""
    if source is target:
        return costs
    out = np.zeros((target.words, *costs.shape[1:]), dtype=np.int64)
    for old, new in zip(source.digits, target.digits, strict=True):
        if old.radix > 1:
            out[new.word] += costs[old.word] // old.weight % old.radix * new.weight
    out[0] = np.where(costs[0] >= INFEASIBLE, INFEASIBLE, out[0])
    return out


def packed_digits(bounds: Sequence[int]) -> tuple[tuple[Digit, ...], int]:
    """Fill words from the most important component on; inside a word the last component has weight 1."""
    words: list[list[int]] = [[]]
    product = 1
    for bound in bounds:
        if product * (bound + 1) > INFEASIBLE and words[-1]:
            words.append([])
            product = 1
        words[-1].append(bound + 1)
        product *= bound + 1
    digits: list[Digit] = []
    for index, radices in enumerate(words):
        weight = 1
        placed: list[Digit] = []
        for radix in reversed(radices):
            placed.append(Digit(index, weight, radix))
            weight *= radix
        digits.extend(reversed(placed))
    return tuple(digits), len(words)


def level_values(tree: Tree, rules: Rules, counts: NDArray[np.int64]) -> tuple[int, ...]:
    """The objective per level, top first, of int64 [leaves] counts: used units or sum of squares."""
    values: list[int] = []
    for level, rule in enumerate(rules):
        totals = tree.totals(counts, level)
        values.append(int((totals * totals).sum() if rule.spread else np.count_nonzero(totals)))
    return tuple(values)
