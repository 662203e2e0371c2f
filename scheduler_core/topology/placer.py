"""Places groups on a tree, for the scheduler, the command line and the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import Rules, Term, keep_terms, smallest_conflict, terms_of
from scheduler_core.topology.exact.tables import OutOfBudget
from scheduler_core.topology.objective import level_values
from scheduler_core.topology.problem import Problem, pose
from scheduler_core.topology.question import Solver, pose_question
from scheduler_core.topology.reach import any_placement, is_feasible, most_feasible
from scheduler_core.topology.solvers import EXACT, BrokenSolver, Exact, ask
from scheduler_core.topology.tree import Tree


@dataclass(frozen=True, eq=False)
class GroupPlacement:
    """The placement of a group.

    counts: int64 [leaves], members per node with the fixed ones. added: int64 [leaves], the newly placed.
    values: per level from the top, used units (pack) or sum of squared counts (spread). optimal: whether
    the objective is proven to be the best.
    """

    counts: NDArray[np.int64]
    added: NDArray[np.int64]
    values: tuple[int, ...]
    optimal: bool


@dataclass(frozen=True)
class Infeasible:
    """No placement meets the strict rules; `conflict` is empty when the free slots alone are too few.

    It is also empty if the solver missed the placements there are, or gave an answer that cannot be used.
    """

    reason: str
    conflict: tuple[Term, ...] = ()


def never() -> bool:
    """A budget that never expires."""
    return False


def place(
    tree: Tree,
    capacity: NDArray[np.int64],
    size: int,
    rules: Rules,
    *,
    fixed: NDArray[np.int64] | None = None,
    expired: Callable[[], bool] = never,
    solver: Solver = EXACT,
) -> GroupPlacement | Infeasible:
    """The best placement of a group of `size` pods, all or nothing; with another solver what that one finds.

    capacity: int64 [leaves], how many (more) members fit on each node, over all resources and the pod limit.
    fixed: int64 [leaves], members that are placed and stay; they count towards `size` and every rule, and not
    against `capacity`. expired: called repeatedly; once true, the best placement known is returned.
    """
    question = pose_question(tree, capacity, size, rules, fixed)
    problem = question.problem
    missing, slots = problem.missing, int(problem.free[-1].sum())
    if missing < 0:
        return Infeasible(f"{size - missing} members are placed already, the group has {size}")
    if missing > slots:
        return Infeasible(f"{missing} members need a slot, the nodes of the topology have {slots} free")
    proves = type(solver) is Exact  # not what others make of it
    optimal = proves
    try:
        added = ask(solver, question, expired)
    except OutOfBudget:
        optimal = False
        added = any_placement(problem)
    except BrokenSolver as error:
        return Infeasible(str(error))
    if added is None:
        if not proves and is_feasible(problem):
            return Infeasible(f"solver {solver.name} found no place for {missing} members; there is one")
        return _explain(problem, tree, capacity, fixed)
    counts = problem.held[-1] + added
    return GroupPlacement(counts, added, level_values(tree, rules, counts), optimal)


def can_place(
    tree: Tree, capacity: NDArray[np.int64], size: int, rules: Rules, fixed: NDArray[np.int64] | None = None
) -> bool:
    """Whether `place` would find a placement; much cheaper, as nothing is optimised."""
    problem = pose(tree, capacity, size, rules, fixed)
    return problem.missing >= 0 and is_feasible(problem)


def most_members(
    tree: Tree, capacity: NDArray[np.int64], size: int, rules: Rules, fixed: NDArray[np.int64] | None = None
) -> int:
    """The number of the missing members of `size` that could be placed together."""
    return most_feasible(pose(tree, capacity, size, rules, fixed))


def _explain(
    problem: Problem, tree: Tree, capacity: NDArray[np.int64], fixed: NDArray[np.int64] | None
) -> Infeasible:
    def holds(terms: tuple[Term, ...]) -> bool:
        return can_place(tree, capacity, problem.size, keep_terms(problem.rules, terms), fixed)

    conflict = smallest_conflict(terms_of(problem.rules), holds)
    demands = " with ".join(map(str, conflict))
    slots = int(problem.free[-1].sum())
    return Infeasible(
        f"{problem.missing} members cannot be placed under {demands}; {slots} slots are free", conflict
    )
