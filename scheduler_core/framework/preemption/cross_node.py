"""Cross-node preemption: victims for the node's resources on that node, for quota on any node.

The node gets the victims that its own resources need. The rest of what the quota lacks is taken from the
least important candidates of the whole cluster. Where candidates are few, all subsets of them are compared.
See docs/quota.md#preemption.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.loans import (
    FIRST,
    OTHERS,
    WITHIN,
    Loans,
    contended_by,
    stages_of,
    stages_of_largest,
)
from scheduler_core.framework.preemption.victim_costs import MOST_CANDIDATES, VictimCosts, best_subset
from scheduler_core.state.placed.pods import PodTable

# Candidates that are tested at once; most are never tested.
CHUNK: Final = 1024


class ClusterCandidates:
    """The eligible pods of the whole cluster: `candidates` int64 [K], least important first."""

    def __init__(self, table: PodTable, demand: Demand, loans: Loans | None, budgets: Budgets) -> None:
        self._table = table
        self._demand = demand
        self._loans = loans
        self._budgets = budgets
        self.candidates: Rows = table.removal_order(demand.eligible)

    def frees_within_loans(self, need: Int64) -> bool:
        """Whether candidates may free `need` (int64 [R]) without reaching into the min of any quota."""
        loans, rows = self._loans, self.candidates
        if loans is None:
            return True
        lacking = np.flatnonzero(need > 0)
        held = self._table.requests[lacking][:, rows].T  # [K, C]
        owners = loans.owners(rows)
        fits = loans.fit_alone(rows, need > 0)
        sums: Int64 = np.zeros((len(loans.left), len(lacking)), dtype=np.int64)  # [Q, C]
        np.add.at(sums, owners[fits], held[fits])
        most = np.where(loans.counts[:, lacking], np.minimum(sums, loans.limit[:, lacking]), sums)
        return bool((most.sum(axis=0) >= need[lacking]).all())

    def best(self, slot: int, lacking: Int64, need: Int64) -> Rows | None:
        """The cheapest set that frees `lacking` on the node and `need` anywhere (int64 [R] each).

        None if there is no such set, or if there are too many candidates to compare all subsets.
        """
        table, rows = self._table, self.candidates
        width = len(need)
        held = table.requests[:width].T[rows]  # [K, R]
        here = table.slot[rows] == slot
        useful = (held[:, need > 0] > 0).any(axis=1) | (here & (held[:, lacking > 0] > 0).any(axis=1))
        rows, held, here = rows[useful], held[useful], here[useful]
        if len(rows) > MOST_CANDIDATES:
            return None
        costs = VictimCosts(table, self._loans, self._budgets, rows)
        frees = np.hstack([held, held * here[:, None]])
        contended = contended_by(self._demand, np.maximum(lacking, need))
        best = best_subset(costs, frees, np.concatenate([need, lacking]), contended)
        return None if best is None else rows[best.places][::-1]

    def rest(self, local: Rows, contended: Bool, need: Int64) -> Rows | None:
        """Rows to evict besides `local` so that `need` (int64 [R]) comes free.

        `contended` bool [R] marks the resources that victims are evicted for. None if all candidates together
        do not free enough. Not minimal: the caller reprieves pods that are not needed.
        """
        rows = self.candidates[~np.isin(self.candidates, local)]
        found = self._first_that_free(rows, local, contended, need, stages_of(self._loans))
        if found is None and self._loans is not None:
            # Small victims may have ended a loan, so that a larger one became unlawful: largest first.
            lacking = need > 0
            shares = self._table.requests[: len(need)][lacking][:, rows] / need[lacking, None]
            largest = rows[np.argsort(-shares.sum(axis=0), kind="stable")]
            found = self._first_that_free(largest, local, contended, need, stages_of_largest(self._loans))
        return found

    def _first_that_free(
        self, rows: Rows, local: Rows, contended: Bool, need: Int64, stages: tuple[int, ...]
    ) -> Rows | None:
        """Takes candidates in order, each only while its quota is over min, until enough is free.

        In every stage, candidates that violate no budget come first.
        """
        books = RemainingLoans(self._table, self._loans, self._budgets, local, contended)
        left, found = need.copy(), set[int]()
        for stage in stages:
            for late in (False, True) if self._budgets else (False,):
                for start in range(0, len(rows), CHUNK):
                    for row in books.may_go(rows[start : start + CHUNK], left, stage).tolist():
                        if not (left > 0).any():
                            return np.array(list(found), dtype=np.int64)
                        still = len(books.may_go(np.array([row]), left, stage)) and row not in found
                        if still and (late or not books.violates(row)):
                            books.take(row)
                            found.add(row)
                            left -= self._table.requests[: len(left), row]
        return None if (left > 0).any() else np.array(list(found), dtype=np.int64)


class RemainingLoans:
    """The remaining loans and budgets while victims are taken one by one."""

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
        """The pods of `rows` that free a needed resource and that a stage may take now."""
        held = self._table.requests[: len(needed)].T[rows]  # [M, R]
        fit = ((held > 0) & (needed > 0)).any(axis=1)
        loans = self._loans
        if loans is not None:
            owners = loans.owners(rows)
            left, counts = self._left[owners], loans.counts[owners]  # [M, R]
            borrows = (left > 0) & counts & (held[:, : left.shape[1]] > 0)
            if stage == OTHERS:
                fit &= borrows.any(axis=1)
            else:
                fit &= (borrows & self._contended).any(axis=1)
            if stage <= WITHIN:
                bound = counts & loans.bounding(self._contended)
                fit &= ~((held > np.maximum(left, 0)) & bound).any(axis=1)
            if stage == FIRST:
                fit &= loans.first[owners]
        return rows[fit]

    def violates(self, row: int) -> bool:
        """Whether the eviction exceeds a budget after those before it."""
        pod = self._table.pods[row]
        return pod is not None and any(self._allowed[number] <= 0 for number in self._budgets.of(pod))

    def take(self, row: int) -> None:
        """Count the pod as evicted."""
        pod = self._table.pods[row]
        if self._loans is not None:
            quota = int(self._loans.owners(np.array([row]))[0])
            self._left[quota] -= self._table.requests[: self._loans.width, row]
        if pod is not None and self._budgets:
            for number in self._budgets.of(pod):
                self._allowed[number] -= 1
