"""The contract of solvers (entry points `muster.solvers`): the question, and the check of the answer.

See docs/plugins.md#a-solver-for-the-topology.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule, Rules
from scheduler_core.topology.problem import Problem, pose
from scheduler_core.topology.tree import Tree


@dataclass(frozen=True, eq=False)
class Question:
    """Asks for places for the missing members of a group of `size` equal pods, all of them or none.

    free: int64 [leaves], how many more members fit on each node, over all resources and the limit of pods.
    held: int64 [leaves], members that are there and stay; they count towards `size` and every rule, and not
    against `free`. rules: one LevelRule per level of the tree, top first. Both arrays are read only.
    """

    tree: Tree
    rules: Rules
    size: int
    free: NDArray[np.int64]
    held: NDArray[np.int64]

    @property
    def missing(self) -> int:
        """The number of members to be placed."""
        return self.size - int(self.held.sum())

    @cached_property
    def problem(self) -> Problem:
        """The same as arrays per level, with what the objective makes of it."""
        return pose(self.tree, self.free, self.size, self.rules, self.held)


class Solver(Protocol):
    """Finds places for groups. A solver is pure and deterministic: it uses no clock, state or randomness."""

    @property
    def name(self) -> str:
        """The name in the configuration."""

    def solve(self, question: Question, expired: Callable[[], bool]) -> NDArray[np.int64] | None:
        """The number of members to add on each node, int64 [leaves]; None if there is no placement for all.

        Call `expired` repeatedly: once it is true, return the best placement so far, or raise OutOfBudget
        (`scheduler_core.topology.tables`), and Muster takes some placement that keeps the rules.
        """


def pose_question(
    tree: Tree, free: NDArray[np.int64], size: int, rules: Rules, held: NDArray[np.int64] | None
) -> Question:
    """A question with read-only copies of the arrays; without `held`, no members are placed."""
    arrays = [free.astype(np.int64), np.zeros_like(free) if held is None else held.astype(np.int64)]
    for array in arrays:
        array.flags.writeable = False
    return Question(tree, rules, size, *arrays)


def fault(question: Question, added: NDArray[Any]) -> str:
    """The reason why an answer cannot be used; empty if it keeps every rule."""
    shape = (len(question.tree.leaves),)
    if added.shape != shape or added.dtype.kind not in "iu":
        return f"its answer is no array of {shape[0]} whole numbers, one for each node"
    if len(added) and int(added.min()) < 0:
        return f"it takes members away from node {question.tree.leaves[int(added.argmin())]}"
    over = np.flatnonzero(added > np.maximum(question.free, 0))
    if len(over):
        leaf = int(over[0])
        node, room = question.tree.leaves[leaf], max(0, int(question.free[leaf]))
        return f"it puts {int(added[leaf])} members on node {node}, which has room for {room}"
    if int(added.sum()) != question.missing:
        return f"it places {int(added.sum())} members, {question.missing} are missing"
    return _broken_rule(question, question.tree.sums(question.held + added.astype(np.int64)))


def _broken_rule(question: Question, counts: tuple[NDArray[np.int64], ...]) -> str:
    """The first strict rule that does not hold for the counts, int64 [units] per level."""
    above = np.array([question.size])
    for level, rule in enumerate(question.rules):
        for unit in np.unique(counts[level]).tolist():
            if not rule.allows(unit, question.size):
                where = question.tree.units[level][int(np.flatnonzero(counts[level] == unit)[0])]
                return f"it puts {unit} members on {rule.level} {where}, against {_terms(rule)}"
        if rule.exact is not None:
            used = np.add.reduceat((counts[level] > 0).astype(np.int64), question.tree.offsets[level][:-1])
            wrong = np.flatnonzero((above > 0) & (used != rule.exact))
            if len(wrong):
                found = int(used[wrong[0]])
                return f"it uses {found} units of level {rule.level} below one parent, against {_terms(rule)}"
        above = counts[level]
    return ""


def _terms(rule: LevelRule) -> str:
    return " and ".join(map(str, rule.terms))
