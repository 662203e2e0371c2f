"""Cost tables and their min-plus product, exact and in lexicographic order over words.

A table is int64 [words, rows, K, C]: for each row, the cheapest way to use k children (K is 1 where the
number of used children is free) and to add c pods. An entry that cannot be is INFEASIBLE in word 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.objective import INFEASIBLE

Table = NDArray[np.int64]
Expired = Callable[[], bool]

# Steps of a product between two checks of the budget.
TURNS_PER_QUESTION = 4

# Cells of a word that `least_of_shifts` processes at a time.
MOST_CELLS = 1 << 16

# The most memory for tables that are kept to read decisions back.
MOST_BYTES = 1 << 29


class OutOfBudget(Exception):
    """The caller's budget, or the memory, ended before the optimum was proven."""


def infeasible(shape: tuple[int, ...]) -> Table:
    """A table without any feasible entry."""
    table = np.zeros(shape, dtype=np.int64)
    table[0] = INFEASIBLE
    return table


def keep_smaller(best: Table, other: Table) -> None:
    """Set `best` in place to the lexicographic minimum of the two over the word axis (axis 0)."""
    if len(best) == 1:
        np.minimum(best, other, out=best)
        return
    smaller = other[0] < best[0]
    equal = other[0] == best[0]
    for word in range(1, len(best)):
        smaller |= equal & (other[word] < best[word])
        equal &= other[word] == best[word]
    for word in range(len(best)):
        np.copyto(best[word], other[word], where=smaller)


def first_smallest(costs: Table) -> int:
    """Index of the first lexicographic minimum of [words, n]; -1 if no entry is feasible."""
    candidates = np.flatnonzero(costs[0] == costs[0].min(initial=INFEASIBLE))
    if len(candidates) == 0 or costs[0, candidates[0]] >= INFEASIBLE:
        return -1
    for word in costs[1:]:
        values = word[candidates]
        candidates = candidates[values == values.min()]
    return int(candidates[0])


def least_of_shifts(before: Table, costs: Table, shifts: NDArray[np.int64], width: int) -> Table:
    """The lexicographic minimum over i of `before` moved up by shifts[i] plus costs[:, i].

    before: [words, K, C] with C >= width; costs: [words, n]; shifts: [n] ascending, below width. The result
    is [words, K, width].
    """
    words, used = before.shape[:2]
    highest = int(shifts[-1])
    padded = infeasible((words, used, highest + width))
    padded[:, :, highest:] = before[:, :, :width]
    shape, strides = (words, used, highest + 1, width), (*padded.strides, padded.strides[2])
    windows = np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)  # [.., start, width]
    block = max(1, MOST_CELLS // (used * width))
    least = infeasible((words, used, width))
    for first in range(0, len(shifts), block):
        chosen = shifts[first : first + block]
        moved = windows[:, :, highest - chosen] + costs[:, None, first : first + block, None]
        keep_smaller(least, smallest_along(moved))
    return least


def smallest_along(costs: Table) -> Table:
    """The lexicographic minimum over axis 2 of [words, K, n, C]: [words, K, C]."""
    least = np.empty((len(costs), costs.shape[1], costs.shape[3]), dtype=np.int64)
    least[0] = costs[0].min(axis=1)
    if len(costs) == 1:
        return least
    equal = costs[0] == least[0][:, None]
    for word in range(1, len(costs)):
        values = np.where(equal, costs[word], INFEASIBLE)
        least[word] = values.min(axis=1)
        equal &= values == least[word][:, None]
    return least


def product(left: Table, right: Table, most_used: int, most_added: int, expired: Expired) -> Table:
    """Min-plus product of two tables row by row, cut to k <= most_used and c <= most_added.

    Raises OutOfBudget.
    """
    if left.shape[2] * left.shape[3] < right.shape[2] * right.shape[3]:
        left, right = right, left
    words, rows, used_left, added_left = left.shape
    used = min(used_left + right.shape[2] - 1, most_used + 1)
    added = min(added_left + right.shape[3] - 1, most_added + 1)
    out = infeasible((words, rows, used, added))
    first = 0
    if used_left > 1:
        # A parent without used children holds nothing new: row k = 0 has only the entry c = 0.
        first = 1
        for one, other in ((left, right), (right, left)):
            part = one[:, :, :used, :added] + other[:, :, :1, :1]
            keep_smaller(out[:, :, : part.shape[2], : part.shape[3]], part)
    live = (right[0, :, first:used, :added] < INFEASIBLE).any(axis=0)  # [K, C]
    for turn, (above, c) in enumerate(np.argwhere(live).tolist()):
        if turn % TURNS_PER_QUESTION == 0 and expired():
            raise OutOfBudget
        k = above + first
        piece = left[:, :, first : used - k, : added - c] + right[:, :, k, c, None, None]
        keep_smaller(out[:, :, k + first : k + first + piece.shape[2], c : c + piece.shape[3]], piece)
    return out


def split(left: Table, right: Table, used: int, added: int) -> tuple[int, int]:
    """(k, c) of the right factor in the product's entry (used, added); tables [words, K, C].

    Among equals the left factor, which is first by name, gets the most pods.
    """
    k_low, k_high = max(0, used - left.shape[1] + 1), min(used, right.shape[1] - 1)
    c_low, c_high = max(0, added - left.shape[2] + 1), min(added, right.shape[2] - 1)
    mine = right[:, k_low : k_high + 1, c_low : c_high + 1]
    theirs = left[:, used - k_high : used - k_low + 1, added - c_high : added - c_low + 1][:, ::-1, ::-1]
    costs = (mine + theirs).transpose(0, 2, 1).reshape(len(left), -1)  # [words, c * k]
    choice = first_smallest(costs)
    c, k = divmod(choice, k_high - k_low + 1)
    return k + k_low, c + c_low
