"""Which whole groups of lower priority must go so that a group can be placed.

Only strict rules and free slots ask for victims, never a soft wish: when the group can be placed at all,
none is chosen. Otherwise the fewest groups that make a placement possible, and of those sets the cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.sparing import spared
from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.placer import Infeasible, Placement, can_place, never, place
from scheduler_core.topology.question import Solver
from scheduler_core.topology.solvers import EXACT
from scheduler_core.topology.tree import Tree

# Sets of victims tried one by one; above that the answer is the set from which no group can be spared.
MOST_TRIALS = 300


@dataclass(frozen=True)
class Victim:
    """A whole group of lower priority. cost: what losing it costs; compares within sets of equal number."""

    name: str
    priority: int
    cost: int


@dataclass(frozen=True, eq=False)
class Preemption:
    """The groups to evict, as indexes into the offered victims in ascending order, and the placement then."""

    victims: tuple[int, ...]
    placement: Placement


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
) -> Preemption | Infeasible:
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
        spared = _spare(victims, fits)
        chosen = _fewest(victims, spared, fits, expired)
    room = capacity_without(frozenset(chosen))
    placement = place(tree, room, size, rules, fixed=fixed, expired=expired, solver=solver)
    return placement if isinstance(placement, Infeasible) else Preemption(chosen, placement)


def _price(victims: Sequence[Victim], chosen: Sequence[int]) -> tuple[int, int]:
    return max(victims[index].priority for index in chosen), sum(victims[index].cost for index in chosen)


def _spare(victims: Sequence[Victim], fits: Callable[[Sequence[int]], bool]) -> tuple[int, ...]:
    """From all victims, give back the dearest first; what remains cannot spare a single group."""
    dearest = sorted(
        range(len(victims)), key=lambda index: (-victims[index].priority, -victims[index].cost, index)
    )
    return tuple(sorted(spared(dearest, lambda chosen: fits(tuple(chosen)))))


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
