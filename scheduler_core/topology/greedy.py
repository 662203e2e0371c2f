"""The solver `greedy`: goes down the tree once without backtracking, as chic-sched does.

At each unit it divides what it was given among the children: a level that packs fills the child with the most
free slots first, a level that spreads gives even shares, the child with the fewest slots first. What a child
could not place goes on to the next. It takes next to no time, misses the best placement often and sometimes a
placement that exists; it never answers with one that breaks a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.question import Question, fault

Shares = dict[int, int]


class Greedy:
    """The solver `greedy` of the configuration."""

    name = "greedy"

    def solve(self, question: Question, expired: Callable[[], bool]) -> NDArray[np.int64] | None:
        """Members to add per node, int64 [leaves]; None where one way down places not all of them."""
        del expired
        added = np.zeros(len(question.tree.leaves), dtype=np.int64)
        for leaf, share in _Descent(question).below(0, 0, question.missing).items():
            added[leaf] = share
        return None if fault(question, added) else added


class _Descent:
    """One way down. Sums per level, int64 [units]: what is free, and what is held."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._free = [units.tolist() for units in question.tree.sums(np.maximum(question.free, 0))]
        self._held = [units.tolist() for units in question.tree.sums(question.held)]

    def below(self, level: int, parent: int, wanted: int) -> Shares:
        """Places for up to `wanted` members below a unit of the level above (0, the root, for level 0)."""
        rule, offsets = self._question.rules[level], self._question.tree.offsets[level]
        children = self._in_order(rule, level, range(int(offsets[parent]), int(offsets[parent + 1])))
        placed: Shares = {}
        left, used = wanted, sum(self._held[level][child] > 0 for child in children)
        for place, child in enumerate(children):
            new = self._held[level][child] == 0
            if not left or (new and rule.exact is not None and used >= rule.exact):
                continue
            share = self._share(rule, level, child, left, len(children) - place, used)
            found = self._onto(level, child, share)
            count = sum(found.values())
            if count and self._allows(rule, level, child, count):
                placed |= found
                left, used = left - count, used + new
        return placed

    def _onto(self, level: int, child: int, share: int) -> Shares:
        """The part of its share that a child takes."""
        if share <= 0:
            return {}
        last = level == self._question.tree.depth - 1
        return {child: share} if last else self.below(level + 1, child, share)

    def _in_order(self, rule: LevelRule, level: int, children: Sequence[int]) -> list[int]:
        """Children with members first, then by free slots: the most to pack, the fewest to spread."""
        sign, held, free = 1 if rule.spread else -1, self._held[level], self._free[level]
        return sorted(children, key=lambda child: (-held[child], sign * free[child], child))

    def _share(self, rule: LevelRule, level: int, child: int, left: int, units: int, used: int) -> int:
        """The share of one child: its part of what is left, within its room and the range of the level."""
        base = self._held[level][child]
        parts = rule.exact - used + (base > 0) if rule.exact is not None else units
        share = -(-left // max(1, parts)) if rule.spread else left
        if rule.exact is not None and not rule.spread:
            share = left - (parts - 1) * rule.lowest
        most = min(share, self._free[level][child])
        if most < left and (base + most) < rule.lowest:
            most = min(left, self._free[level][child], rule.lowest - base)
        while most > 0 and not self._allows(rule, level, child, most):
            most -= 1
        return most

    def _allows(self, rule: LevelRule, level: int, child: int, count: int) -> bool:
        return rule.allows(self._held[level][child] + count, self._question.size)
