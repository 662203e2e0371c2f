"""Costs of sets of victims, which of the sets are lawful, and the cheapest set among few candidates.

Where loans, budgets or several resources meet, no order of removal finds the cheapest set in every case. All
subsets of few candidates are compared; with more candidates the order of removal decides (`lanes.py`,
`cross_node.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.cost_bounds import NO_VICTIM, PRIORITY_OFFSET
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.framework.preemption.loans import Loans, weighs_lost_work
from scheduler_core.state.placed.pods import PodTable

Keys = tuple[NDArray[np.int64] | NDArray[np.float64], ...]


class VictimCosts:
    """Costs of sets of J candidates: `rows` int64 [J] of the pod table, in ascending importance.

    Sets are given as `picks`, int64 [S, J] of zeros and ones.
    """

    def __init__(self, table: PodTable, loans: Loans | None, budgets: Budgets, rows: Rows) -> None:
        self._table = table
        self._loans = loans
        self._rows = rows
        self._priority = table.priority[rows]
        every: Bool = np.ones((len(rows), 1), dtype=np.bool_)
        self._protection = budgets.protection(rows[:, None], every)
        self._allowed = budgets.allowed
        if loans is not None:
            self._owners = loans.owners(rows)
            self._requests: Int64 = table.requests[: loans.width].T[rows]  # [J, R]

    def lawful(self, picks: Int64, units: Sequence[Sequence[int]] | None = None) -> Bool:
        """bool [S]: in some order, every victim's quota is over its min, in a resource that the victim uses,
        before the victim is evicted.

        `units` are candidates that are evicted together, by their places; by default each is evicted alone.
        Victims of a quota are lawful if each uses something that the quota borrows, and one of them may be
        the last. In a fair move they are if they leave each quota what it keeps.
        """
        out: Bool = np.ones(len(picks), dtype=np.bool_)
        loans = self._loans
        if loans is None:
            return out
        groups = units if units is not None else [[place] for place in range(len(self._rows))]
        for quota in np.unique(self._owners):
            own = self._owners == quota
            taken = picks[:, own] @ self._requests[own]  # [S, R]
            if loans.strict:
                out &= loans.hold(taken, int(quota))
                continue
            some: Bool = np.asarray(~picks[:, own].any(axis=1))
            for group in groups:
                if self._owners[group[0]] != quota:
                    continue
                itself = picks[:, group] @ self._requests[group]
                returns = ((loans.left[quota] > 0) & loans.counts[quota] & (itself > 0)).any(axis=1)
                out &= returns | ~picks[:, group].any(axis=1)
                over = (loans.left[quota] - taken + itself > 0) & loans.counts[quota] & (itself > 0)
                some |= over.any(axis=1)
            out &= some
        return out

    def _reach(self, picks: Int64, contended: Bool) -> tuple[Int64, Int64]:
        """(amount beyond loans, victims whose quota borrows nothing contended), int64 [S] each."""
        reach: Int64 = np.zeros(len(picks), dtype=np.int64)
        loans = self._loans
        if loans is None:
            return reach, reach
        resources = np.flatnonzero(contended)
        wanted = np.broadcast_to(contended[resources], (len(picks), len(resources)))
        for quota in np.unique(self._owners):
            own = self._owners == quota
            taken = picks[:, own] @ self._requests[own][:, resources]  # [S, K]
            reach += loans.excess(taken, np.full(len(picks), quota), resources, wanted)
        not_borrowing = ~loans.borrowers(contended)[self._owners]
        return reach, picks @ not_borrowing.astype(np.int64)

    def _violations(self, picks: Int64) -> Int64:
        """int64 [S]: victims whose eviction exceeds a budget; important pods use it up first."""
        budgets, places, _ = self._protection
        hurt: Bool = np.zeros(picks.shape, dtype=np.bool_)  # [S, J]
        for budget in np.unique(budgets):
            mine = np.sort(places[budgets == budget])[::-1]
            spent = np.cumsum(picks[:, mine], axis=1)
            hurt[:, mine] |= (picks[:, mine] > 0) & (spent > self._allowed[budget])
        out: Int64 = hurt.sum(axis=1)
        return out

    def keys(self, picks: Int64, contended: Bool) -> Keys:
        """The keys of `Cost` per set, [S] each, without the node's name."""
        chosen = picks > 0
        priority = np.where(chosen, self._priority, NO_VICTIM)  # [S, J]
        top = priority.max(axis=1, initial=NO_VICTIM)
        first = chosen & (priority == top[:, None])
        since = self._table.since[self._rows]
        if weighs_lost_work(self._table, self._loans):
            late = picks @ since
        else:
            late = np.where(first, since, np.inf).min(axis=1, initial=np.inf)
        return (
            *self._reach(picks, contended),
            self._violations(picks),
            top,
            picks @ (self._priority + PRIORITY_OFFSET),
            picks.sum(axis=1),
            picks @ self._table.rank[self._rows],
            -late,
        )


# With at most this many candidates all subsets are compared: 4,096.
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


def best_subset(costs: VictimCosts, frees: Int64, needs: Int64, contended: Bool) -> Best | None:
    """The cheapest lawful subset of J candidates that frees enough, or None if there is none.

    `frees` int64 [J, C] is what each candidate frees of `needs` int64 [C]. Every victim has a cost, and
    subsets of a lawful set are lawful, so the result is minimal.
    """
    subsets = _subsets(len(frees))
    picks = subsets[(subsets @ frees >= needs).all(axis=1)]
    picks = picks[costs.lawful(picks)]
    if not len(picks):
        return None
    keys: Keys = costs.keys(picks, contended)
    left = np.arange(len(picks))
    for key in keys:
        left = left[key[left] == key[left].min()]
    first = int(left[0])
    return Best(np.flatnonzero(picks[first]), tuple(key[first].item() for key in keys))
