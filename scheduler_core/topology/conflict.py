"""Why a group cannot be placed: the smallest set of strict demands that cannot hold together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from scheduler_core.topology.constraints import Term

# Sets up to this size are searched exhaustively; a larger conflict is reduced until no demand can be spared.
EXHAUSTIVE_SIZE = 3


def smallest_conflict(terms: Sequence[Term], holds: Callable[[tuple[Term, ...]], bool]) -> tuple[Term, ...]:
    """A smallest subset of `terms` for which `holds` is false, given that it is false for all of them.

    Empty when even no demand at all fails. Adding a demand never makes a failing set hold.
    """
    for size in range(min(EXHAUSTIVE_SIZE, len(terms)) + 1):
        for subset in combinations(terms, size):
            if not holds(subset):
                return subset
    kept = list(terms)
    for term in terms:
        fewer = tuple(other for other in kept if other != term)
        if not holds(fewer):
            kept = list(fewer)
    return tuple(kept)
