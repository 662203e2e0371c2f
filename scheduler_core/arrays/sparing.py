"""From a set that is enough, leave out what can be spared."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def spared(order: Sequence[int], enough: Callable[[frozenset[int]], bool]) -> frozenset[int]:
    """A part of `order` that is enough and can spare none of its items; what comes first is spared first.

    All of `order` must be enough, and a set must stay enough with more items. Half by half: where a whole
    half can be spared, its items need not be tried one by one.
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
