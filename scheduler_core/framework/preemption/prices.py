"""What sets of victims cost, and which are lawful: one answer for a single set and for all subsets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.bounds import NO_VICTIM, PRIORITY_OFFSET
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.framework.preemption.loans import Loans
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]
Keys = tuple[NDArray[np.int64] | NDArray[np.float64], ...]


class Prices:
    """Prices of sets of J candidates: `rows` int64 [J] of the pod table, in order of removal.

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
        """bool [S]: every victim's quota is over its min before the victim goes, in some order (rule 7).

        `units` are candidates that go together, by their places; else each goes alone. The victims of a quota
        may go in any order if one of them may be the last, or if their quota stays over its min.
        """
        out: Bool = np.ones(len(picks), dtype=np.bool_)
        loans = self._loans
        if loans is None:
            return out
        groups = units if units is not None else [[place] for place in range(len(self._rows))]
        for quota in np.unique(self._owners):
            own = self._owners == quota
            taken = picks[:, own] @ self._requests[own]  # [S, R]
            some: Bool = np.asarray(~picks[:, own].any(axis=1))
            for group in groups:
                if self._owners[group[0]] != quota:
                    continue
                itself = picks[:, group] @ self._requests[group]
                over = (loans.left[quota] - taken + itself > 0) & loans.counts[quota]
                some |= over.any(axis=1)
            out &= some
        return out

    def _reach(self, picks: Int64, contended: Bool) -> tuple[Int64, Int64]:
        """(beyond loans, victims whose quota borrows nothing that is contended), int64 [S] each."""
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
        strangers = ~loans.borrowers(contended)[self._owners]
        return reach, picks @ strangers.astype(np.int64)

    def _violations(self, picks: Int64) -> Int64:
        """int64 [S]: victims whose eviction exceeds a budget, the more important ones spending it first."""
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
        start = np.where(first, self._table.start[self._rows], np.inf).min(axis=1, initial=np.inf)
        return (
            *self._reach(picks, contended),
            self._violations(picks),
            top,
            picks @ (self._priority + PRIORITY_OFFSET),
            picks.sum(axis=1),
            -start,
        )
