"""The best set of victims among few candidates: all subsets are looked at.

Where loans, budgets or several resources meet, no order of removal finds the best set in every case. Few
candidates are decided exactly; with more of them the order of removal decides (`lanes.py`, `across.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.framework.preemption.prices import Keys, Prices

Bool = NDArray[np.bool_]

# Of so many candidates all subsets are looked at: 4,096 of them.
MOST_CANDIDATES: Final = 12


class Best(NamedTuple):
    """Places of the chosen candidates, int64 [M] ascending, and the keys of what they cost."""

    places: Rows
    keys: tuple[float, ...]


@lru_cache(maxsize=MOST_CANDIDATES + 1)
def _subsets(size: int) -> Int64:
    """int64 [2 ** size, size]: every subset once, as zeros and ones. Read only."""
    numbers = np.arange(1 << size, dtype=np.int64)[:, None]
    out: Int64 = numbers >> np.arange(size, dtype=np.int64) & 1
    return out


def best_subset(prices: Prices, frees: Int64, needs: Int64, contended: Bool) -> Best | None:
    """The cheapest lawful subset of J candidates that frees enough, or None if there is none.

    `frees` int64 [J, C] is what each candidate frees of what is needed, `needs` int64 [C]. As every victim
    costs something and parts of a lawful set are lawful, nobody in the result can be spared.
    """
    subsets = _subsets(len(frees))
    picks = subsets[(subsets @ frees >= needs).all(axis=1)]
    picks = picks[prices.lawful(picks)]
    if not len(picks):
        return None
    keys: Keys = prices.keys(picks, contended)
    left = np.arange(len(picks))
    for key in keys:
        left = left[key[left] == key[left].min()]
    first = int(left[0])
    return Best(np.flatnonzero(picks[first]), tuple(key[first].item() for key in keys))
