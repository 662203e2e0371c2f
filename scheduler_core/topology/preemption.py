"""Chooses the groups of lower priority that are evicted as a whole so that a group can be placed.

Victims are chosen only for strict rules and free slots, not for preferences: if the group can be placed,
there are no victims. Otherwise the fewest groups that make a placement possible are chosen, and of those sets
the cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.reprieve import minimal_subset, reprieve_order
from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.placer import GroupPlacement, Infeasible, can_place, never, place
from scheduler_core.topology.question import Solver
from scheduler_core.topology.solvers import EXACT
from scheduler_core.topology.tree import Tree

# The most sets of victims that are tried one by one. Beyond it, the answer is minimal but may not be the
# smallest.
MOST_TRIALS = 300


@dataclass(frozen=True)
class Victim:
    """A whole group of lower priority. cost: what losing it costs; compares within sets of equal number."""

    name: str
    priority: int
    cost: int


@dataclass(frozen=True, eq=False)
class GroupPreemption:
    """The groups to evict, as indexes into the offered victims in ascending order, and the placement then."""

    victims: tuple[int, ...]
    placement: GroupPlacement


def choose_victims(
    tree: Tree,
    capacity_without: Callable[[frozenset[int]], NDArray[np.int64]],
    victims: Sequence[Victim],
    size: int,
    rules: Rules,
    *,
    fixed: NDArray[np.int64] | None = None,
    expired: Callable[[], bool] = never,
    solver: Solver = EXACT,
) -> GroupPreemption | Infeasible:
    """The fewest, then the cheapest groups whose eviction lets `place` succeed for the whole group.

    capacity_without: the slots per leaf, int64 [leaves], once the victims with these indexes are gone (slots
    do not add up over victims, so the caller, who knows the resources, computes them). Costs of a set are
    compared as (highest priority, sum of costs). Infeasible when not even all victims would do.
    """

    def fits(chosen: Sequence[int]) -> bool:
        return can_place(tree, capacity_without(frozenset(chosen)), size, rules, fixed)

    everyone = range(len(victims))
    chosen: tuple[int, ...] = ()
    if not fits(()) and fits(everyone):
        enough = _minimal(victims, fits)
        chosen = _fewest(victims, enough, fits, expired)
    room = capacity_without(frozenset(chosen))
    placement = place(tree, room, size, rules, fixed=fixed, expired=expired, solver=solver)
    return placement if isinstance(placement, Infeasible) else GroupPreemption(chosen, placement)


def _price(victims: Sequence[Victim], chosen: Sequence[int]) -> tuple[int, int]:
    return max(victims[index].priority for index in chosen), sum(victims[index].cost for index in chosen)


def _minimal(victims: Sequence[Victim], fits: Callable[[Sequence[int]], bool]) -> tuple[int, ...]:
    """The victims that remain if all unneeded ones are reprieved, the most expensive first."""
    costs, priorities = [victim.cost for victim in victims], [victim.priority for victim in victims]
    order = reprieve_order([range(len(victims), 0, -1), costs, priorities]).tolist()
    return tuple(sorted(minimal_subset(order, lambda chosen: fits(tuple(chosen)))))


def _fewest(
    victims: Sequence[Victim],
    enough: tuple[int, ...],
    fits: Callable[[Sequence[int]], bool],
    expired: Callable[[], bool],
) -> tuple[int, ...]:
    """A smaller or cheaper set than `enough`, looking at small sets first as long as the trials last."""
    trials = 0
    for number in range(1, len(enough) + 1):
        found: tuple[int, ...] | None = enough if number == len(enough) else None
        for chosen in combinations(range(len(victims)), number):
            if found is not None and (_price(victims, chosen), chosen) >= (_price(victims, found), found):
                continue
            trials += 1
            if trials > MOST_TRIALS or expired():
                return found or enough
            if fits(chosen):
                found = chosen
        if found is not None:
            return found
    return enough
