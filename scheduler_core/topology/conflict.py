"""Why a group cannot be placed: the smallest set of strict demands that cannot hold together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, combinations, islice

from scheduler_core.topology.constraints import Term

# Sets up to this size are searched exhaustively; a larger conflict is reduced until no demand can be spared.
EXHAUSTIVE_SIZE = 3
# All of them for five demands; whoever asks for more is told a conflict in which none can be spared.
EXHAUSTIVE_TRIES = 26


def smallest_conflict(terms: Sequence[Term], holds: Callable[[tuple[Term, ...]], bool]) -> tuple[Term, ...]:
    """A smallest subset of `terms` for which `holds` is false, given that it is false for all of them.

    Of many terms, where no small one is found soon, a subset of which no term can be spared.

    Empty when even no demand at all fails. Adding a demand never makes a failing set hold.
    """
    sizes = range(min(EXHAUSTIVE_SIZE, len(terms)) + 1)
    small = chain.from_iterable(combinations(terms, size) for size in sizes)
    for subset in islice(small, EXHAUSTIVE_TRIES):
        if not holds(subset):
            return subset
    kept = list(terms)
    for term in terms:
        fewer = tuple(other for other in kept if other != term)
        if not holds(fewer):
            kept = list(fewer)
    return tuple(kept)
