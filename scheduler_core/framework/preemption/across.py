"""Victims on several nodes for one pod: room on one node, quota from anywhere (reference, rule 15).

What a quota lacks may run on any node. So the node gets the victims that its own resources need, and the rest
of the quota's need is taken from the least important candidates of the whole cluster. Where candidates are
few, all subsets of them are looked at.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.exact import MOST_CANDIDATES, best_subset
from scheduler_core.framework.preemption.loans import (
    FIRST,
    OTHERS,
    WITHIN,
    Loans,
    contended_by,
    stages_of,
)
from scheduler_core.framework.preemption.prices import Prices
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]

# Candidates that are looked at together, so that most are not looked at.
_CHUNK: Final = 1024


class Anywhere:
    """The candidates of the whole cluster, `candidates` int64 [K] least important first."""

    def __init__(self, table: PodTable, demand: Demand, loans: Loans | None, budgets: Budgets) -> None:
        self._table = table
        self._demand = demand
        self._loans = loans
        self._budgets = budgets
        self.candidates: Rows = table.removal_order(demand.eligible)

    def frees_within_loans(self, need: Int64) -> bool:
        """Whether candidates may free what is lacking (int64 [R]) without reaching into any min."""
        loans, rows = self._loans, self.candidates
        if loans is None:
            return True
        lacking = np.flatnonzero(need > 0)
        held = self._table.requests[lacking][:, rows].T  # [K, C]
        owners = loans.owners(rows)
        asked = loans.counts[owners][:, lacking]
        fits = ~((held > loans.limit[owners][:, lacking]) & asked).any(axis=1)
        sums: Int64 = np.zeros((len(loans.left), len(lacking)), dtype=np.int64)  # [Q, C]
        np.add.at(sums, owners[fits], held[fits])
        most = np.where(loans.counts[:, lacking], np.minimum(sums, loans.limit[:, lacking]), sums)
        return bool((most.sum(axis=0) >= need[lacking]).all())

    def best(self, slot: int, lacking: Int64, need: Int64) -> Rows | None:
        """The best of all sets that free `lacking` on the node and `need` anywhere (int64 [R] each).

        None if there is no such set, or if the candidates are too many to look at all.
        """
        table, rows = self._table, self.candidates
        width = len(need)
        held = table.requests[:width].T[rows]  # [K, R]
        here = table.slot[rows] == slot
        useful = (held[:, need > 0] > 0).any(axis=1) | (here & (held[:, lacking > 0] > 0).any(axis=1))
        rows, held, here = rows[useful], held[useful], here[useful]
        if len(rows) > MOST_CANDIDATES:
            return None
        prices = Prices(table, self._loans, self._budgets, rows)
        frees = np.hstack([held, held * here[:, None]])
        contended = contended_by(self._demand, np.maximum(lacking, need))
        best = best_subset(prices, frees, np.concatenate([need, lacking]), contended)
        return None if best is None else rows[best.places][::-1]

    def rest(self, local: Rows, contended: Bool, need: Int64) -> Rows | None:
        """Rows to evict besides `local` so that `need` (int64 [R], what they leave over) comes free.

        `contended` bool [R] is what victims go for, on the node and elsewhere. None if even all together do
        not free enough. Not yet minimal: the caller gives back what turns out not to be needed.
        """
        rows = self.candidates[~np.isin(self.candidates, local)]
        found = self._first_that_free(rows, local, contended, need, stages_of(self._loans))
        if found is None and self._loans is not None:
            # The least important may have ended a loan that a larger victim would have needed.
            lacking = need > 0
            shares = self._table.requests[: len(need)][lacking][:, rows] / need[lacking, None]
            largest = rows[np.argsort(-shares.sum(axis=0), kind="stable")]
            found = self._first_that_free(largest, local, contended, need, (WITHIN, OTHERS))
        return found

    def _first_that_free(
        self, rows: Rows, local: Rows, contended: Bool, need: Int64, stages: tuple[int, ...]
    ) -> Rows | None:
        """Candidates one after the other, each as long as its quota is over min, until enough is free.

        In every stage first those that violate no budget.
        """
        books = Books(self._table, self._loans, self._budgets, local, contended)
        left, found = need.copy(), set[int]()
        for stage in stages:
            for late in (False, True) if self._budgets else (False,):
                for start in range(0, len(rows), _CHUNK):
                    for row in books.may_go(rows[start : start + _CHUNK], left, stage).tolist():
                        if not (left > 0).any():
                            return np.array(list(found), dtype=np.int64)
                        still = len(books.may_go(np.array([row]), left, stage)) and row not in found
                        if still and (late or not books.violates(row)):
                            books.take(row)
                            found.add(row)
                            left -= self._table.requests[: len(left), row]
        return None if (left > 0).any() else np.array(list(found), dtype=np.int64)


class Books:
    """What is left of loans and budgets while victims are taken one by one."""

    def __init__(
        self, table: PodTable, loans: Loans | None, budgets: Budgets, local: Rows, contended: Bool
    ) -> None:
        self._table = table
        self._loans = loans
        self._budgets = budgets
        self._contended = contended
        self._allowed = budgets.allowed.tolist()
        if loans is not None:
            self._left = loans.left.copy()  # [Q, R]
        for row in local.tolist():
            self.take(row)

    def may_go(self, rows: Rows, needed: Int64, stage: int) -> Rows:
        """The pods that free something of what is needed, and that a stage may take now."""
        held = self._table.requests[: len(needed)].T[rows]  # [M, R]
        fit = ((held > 0) & (needed > 0)).any(axis=1)
        loans = self._loans
        if loans is not None:
            owners = loans.owners(rows)
            left, counts = self._left[owners], loans.counts[owners]  # [M, R]
            borrows = (left > 0) & counts
            if stage == OTHERS:
                fit &= borrows.any(axis=1)
            else:
                fit &= (borrows & self._contended).any(axis=1)
            if stage <= WITHIN:
                fit &= ~((held > np.maximum(left, 0)) & counts & self._contended).any(axis=1)
            if stage == FIRST:
                fit &= loans.first[owners]
        return rows[fit]

    def violates(self, row: int) -> bool:
        """Whether the eviction exceeds a budget, given those before it."""
        pod = self._table.pods[row]
        return pod is not None and any(self._allowed[number] <= 0 for number in self._budgets.of(pod))

    def take(self, row: int) -> None:
        """The pod goes."""
        pod = self._table.pods[row]
        if self._loans is not None:
            quota = int(self._loans.owners(np.array([row]))[0])
            self._left[quota] -= self._table.requests[: self._loans.width, row]
        if pod is not None and self._budgets:
            for number in self._budgets.of(pod):
                self._allowed[number] -= 1
