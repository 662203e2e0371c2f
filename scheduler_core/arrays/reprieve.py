"""Reprieve: the order in which victims are given back, the reduction of a set to what is needed,
and the largest number for which something holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from scheduler_core.arrays.types import Int64


def reprieve_order(
    importance: Sequence[ArrayLike], protected: ArrayLike | None = None, stage: ArrayLike | None = None
) -> Int64:
    """Positions of M victims, int64 [M], in the order in which they are given back.

    As in kube-scheduler, victims whose eviction violates a PodDisruptionBudget (`protected`, bool [M]) come
    before the others, and more important victims before less important ones. `importance` are keys [M] each,
    the last one compared first. `stage` [M] is when a victim was chosen: victims of later stages come first.
    """
    keys = [np.asarray(key) for key in (*importance, protected, stage) if key is not None]
    return np.lexsort(keys)[::-1].astype(np.int64)


def minimal_subset(order: Sequence[int], enough: Callable[[frozenset[int]], bool]) -> frozenset[int]:
    """The part of `order` that is needed: it is enough, and no item of it can be left out.

    All of `order` must be enough, and a set must stay enough with more items. Items that come first are left
    out first. Works by bisection: where a whole half can be left out, its items are not tried one by one.
    """
    chosen = frozenset(order)

    def leave_out(block: Sequence[int]) -> None:
        nonlocal chosen
        if enough(chosen.difference(block)):
            chosen = chosen.difference(block)
        elif len(block) > 1:
            leave_out(block[: len(block) // 2])
            leave_out(block[len(block) // 2 :])

    leave_out(order)
    return chosen


def largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `most` for which `holds`, 0 for none; it holds for all smaller ones."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
