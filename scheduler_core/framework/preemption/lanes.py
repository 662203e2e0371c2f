"""Victims on many nodes at once: each node is a lane, and all lanes are decided in parallel over arrays.

In every lane candidates are removed until the lacking resources are free: the least important first, and
candidates whose eviction would violate a disruption budget after all others. Victims that are not needed are
then reprieved. A reclaim goes through stages (`loans.py`): quotas above their max; all quotas that borrow a
lacking resource, within what they borrow; the same quotas beyond that; and, only where no node is found
otherwise, every quota over its min. Before each removal it is tested that the quota still borrows something
that the victim uses (docs/quota.md#preemption).

A candidate that does not fit into what the victims before it left of a loan is passed over. What is taken
after it may matter more than it: `node_order.py` compares other sets in such lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.reprieve import reprieve_order
from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.cost_bounds import NO_VICTIM, PRIORITY_OFFSET, CandidateMatrix, Cost
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.framework.preemption.loans import (
    FIRST,
    OTHERS,
    WITHIN,
    Loans,
    stages_of,
    stages_of_largest,
    weighs_lost_work,
)


class CandidateLanes:
    """L lanes of at most J candidates each, least important first, over the K lacking resources.

    `numbers` int64 [L] are lanes of the matrix; `deficit` int64 [K, L] what must come free; `freed` int64
    [K, L]; `removed` bool [J, L] the victims; `protected` bool [J, L] candidates whose eviction would violate
    a disruption budget after all more important ones; `stage` int8 [J, L] the stage that took a victim.
    """

    def __init__(
        self, matrix: CandidateMatrix, loans: Loans | None, numbers: Rows, deficit: Int64, budgets: Budgets
    ) -> None:
        self.table = matrix.table
        self._loans = loans
        self._budgets = budgets
        self.slots = matrix.slots[numbers]
        self.rows: Int32 = matrix.rows[:, numbers]  # [J, L]
        own = deficit[:, numbers]
        counted: Bool = np.asarray((own > 0).any(axis=1))  # [R]
        if loans is not None and loans.strict:
            counted[: loans.width] |= loans.counts.any(axis=0)
        self._lacking = np.flatnonzero(counted)  # [K] rows of the resource index
        self.deficit: Int64 = own[self._lacking]
        self.chosen: Bool = matrix.chosen[:, numbers]  # [J, L]
        self._columns = np.flatnonzero(self.chosen.any(axis=1)).tolist()
        held = self.table.requests[self._lacking[:, None, None], self.rows]
        self.vectors: Int64 = np.where(self.chosen, held, 0)  # [K, J, L]
        self.removed: Bool = np.zeros(self.chosen.shape, dtype=np.bool_)  # [J, L]
        self.stage: NDArray[np.int8] = np.zeros(self.chosen.shape, dtype=np.int8)  # [J, L]
        self.freed: Int64 = np.zeros_like(self.deficit)  # [K, L]
        # The first turn at which a candidate was passed over that alone would have been within its loan.
        self._passed: Int64 = np.full(len(self.slots), np.iinfo(np.int64).max, dtype=np.int64)  # [L]
        self._protection = budgets.protection(self.rows, self.chosen)
        self.protected: Bool = self._protection.beyond(self.chosen, budgets.allowed)
        # Candidates that no budget protects come first. Without others one round is enough.
        self._rounds = (False, True) if self.protected.any() else (False,)

    def victims(self, lane: int) -> Rows:
        """Rows of a lane's victims, most important first."""
        return self.rows[self.removed[:, lane], lane][::-1].astype(np.int64)

    def replace(self, lane: int, rows: Rows) -> None:
        """Let a lane have other victims, which free its deficit as well."""
        self.removed[:, lane] = self.chosen[:, lane] & np.isin(self.rows[:, lane], rows)
        self.freed[:, lane] = self.vectors[:, self.removed[:, lane], lane].sum(axis=1)

    @property
    def satisfied(self) -> Bool:
        """bool [L]: lanes whose victims free the deficit."""
        return np.all(self.freed >= self.deficit, axis=0)

    # Removing

    def remove(self) -> None:
        """Remove candidates until every lane is satisfied or has no eligible candidate left."""
        if self._loans is not None:
            self._reclaim(self._loans)
            return
        for late in self._rounds:
            for j in self._columns:
                self._take(j, self._useful(j, late), WITHIN)

    def _useful(self, j: int, late: bool) -> Rows:
        """Lanes where candidate j is not removed, belongs to this round, and frees a lacking resource."""
        useful = ((self.freed < self.deficit) & (self.vectors[:, j] > 0)).any(axis=0)
        return np.flatnonzero(useful & ~self.removed[j] & (self.protected[j] == late))

    def _take(self, j: int, lanes: Rows, stage: int) -> None:
        self.removed[j, lanes] = True
        self.stage[j, lanes] = stage
        self.freed[:, lanes] += self.vectors[:, j, lanes]

    def _reclaim(self, loans: Loans) -> None:
        owner = loans.owners(self.rows)
        limit = loans.limit[:, self._lacking]  # [Q, K]
        counts = loans.counts[:, self._lacking]  # [Q, K]
        contended = self.deficit > 0  # [K, L]
        taken = np.zeros((len(self.slots), *limit.shape), dtype=np.int64)  # [L, Q, K]
        for stage in stages_of(loans):
            if stage == OTHERS:
                continue
            for late in self._rounds:
                for j in self._columns:
                    lanes = self._useful(j, late)
                    if not len(lanes):
                        continue
                    quota, vectors = owner[j, lanes], self.vectors[:, j, lanes].T  # [M], [M, K]
                    left = np.maximum(limit[quota] - taken[lanes, quota], 0)  # [M, K]
                    asked = contended[:, lanes].T & counts[quota]
                    fit = ((left > 0) & asked & (vectors > 0)).any(axis=1)
                    if stage <= WITHIN:
                        bound = loans.bounding(asked) & counts[quota]
                        large = fit & ((left < vectors) & bound).any(axis=1)
                        fit &= ~large
                        if large.any():
                            alone = large & ~((limit[quota] < vectors) & bound).any(axis=1)
                            turn = self._turns(np.array(stage), np.array(late), np.array(j))
                            self._passed[lanes[alone]] = np.minimum(self._passed[lanes[alone]], turn)
                    if stage == FIRST:
                        fit &= loans.first[quota]
                    lanes, quota = lanes[fit], quota[fit]
                    taken[lanes, quota] += vectors[fit]
                    self._take(j, lanes, stage)

    def _turns(self, stages: NDArray[np.int8] | Int64, late: Bool, places: Rows) -> Int64:
        """When a stage comes to a candidate: numbers of the broadcast shape, in the order of removal."""
        out: Int64 = (2 * stages.astype(np.int64) + late) * len(self.chosen) + places
        return out

    @property
    def passed_over(self) -> Bool:
        """bool [L]: satisfied lanes with a victim that was taken after a candidate had been passed over."""
        turns = self._turns(self.stage, self.protected, np.arange(len(self.chosen))[:, None])
        later = (self.removed & (turns > self._passed)).any(axis=0)
        return np.asarray(self.satisfied & later)

    def remove_rest(self) -> None:
        """The last stage: victims that use anything that their quota borrows, tested before each removal.

        If that is not enough, small victims may have ended a loan, so that a larger victim became unlawful.
        Such lanes start again with the largest candidates, those within their loans first.
        """
        loans = self._loans
        if loans is None:
            return
        owner = loans.owners(self.rows)
        for lane in np.flatnonzero(~self.satisfied).tolist():
            if not loans.strict:
                order = np.argsort(self.protected[:, lane], kind="stable").tolist()
                self._sweep(lane, order, loans, owner, OTHERS)
            if (self.freed[:, lane] < self.deficit[:, lane]).any():
                self.removed[:, lane] = False
                self.freed[:, lane] = 0
                lacks = self.deficit[:, lane] > 0
                shares = self.vectors[lacks][:, :, lane] / self.deficit[lacks, lane, None]
                largest = np.argsort(-shares.sum(axis=0), kind="stable").tolist()
                for stage in stages_of_largest(loans):
                    self._sweep(lane, largest, loans, owner, stage)

    def _sweep(self, lane: int, order: Sequence[int], loans: Loans, owner: Int64, stage: int) -> None:
        """Remove a lane's candidates in the given order, each only while its quota borrows what it uses."""
        left = loans.left.copy()  # [Q, R]
        removed = self.removed[:, lane]
        requests = self.table.requests[: loans.width].T
        np.subtract.at(left, owner[removed, lane], requests[self.rows[removed, lane]])
        asked = np.zeros(loans.width, dtype=np.bool_)  # [R]
        asked[self._lacking[self.deficit[:, lane] > 0]] = True
        for j in order:
            needs = self.freed[:, lane] < self.deficit[:, lane]
            if removed[j] or not (needs & (self.vectors[:, j, lane] > 0)).any():
                continue
            quota = owner[j, lane]
            vector, counts = requests[self.rows[j, lane]], loans.counts[quota]
            lawful = ((left[quota] > 0) & counts & (vector > 0)).any()
            bound = counts & loans.bounding(asked)
            within = not ((vector > np.maximum(left[quota], 0)) & bound).any()
            if lawful and (within or stage == OTHERS):
                left[quota] -= vector
                self._take(j, np.array([lane]), stage)

    # Reprieve

    def reprieve(self) -> None:
        """Give back every victim that its lane does not need, in the order of reprieve, all lanes at once."""
        places, lanes = np.nonzero(self.removed)
        if not len(places):
            return
        stages, protected = self.stage[places, lanes], self.protected[places, lanes]
        order = reprieve_order([places], protected, stages)
        places, lanes, stages, protected = places[order], lanes[order], stages[order], protected[order]
        turns = (np.diff(places) != 0) | (np.diff(protected) != 0) | (np.diff(stages) != 0)
        bounds = [0, *(np.flatnonzero(turns) + 1).tolist(), len(places)]
        for start, end in pairwise(bounds):
            self._spare(int(places[start]), lanes[start:end])

    def _spare(self, j: int, lanes: Rows) -> None:
        without = self.freed[:, lanes] - self.vectors[:, j, lanes]
        spare = (without >= self.deficit[:, lanes]).all(axis=0)
        self.removed[j, lanes[spare]] = False
        self.freed[:, lanes[spare]] = without[:, spare]

    # Costs

    def _reach(self) -> tuple[Int64, Int64]:
        """int64 [L] each: amount beyond loans; victims of quotas that borrow nothing lacking."""
        reach: Int64 = np.zeros(len(self.slots), dtype=np.int64)
        not_borrowing: Int64 = np.zeros(len(self.slots), dtype=np.int64)
        loans = self._loans
        if loans is None or not self.stage[self.removed].any():
            # Victims within loans have neither cost.
            return reach, not_borrowing
        places, lanes = np.nonzero(self.removed)
        owners = loans.owners(self.rows[places, lanes])
        contended = self.deficit.T > 0  # [L, K]
        borrows = (loans.left > 0) & loans.counts  # [Q, R]
        outside = ~(borrows[owners][:, self._lacking] & contended[lanes]).any(axis=1)
        np.add.at(not_borrowing, lanes, outside)
        pairs, which = np.unique(lanes * len(loans.left) + owners, return_inverse=True)
        taken = np.zeros((len(pairs), len(self._lacking)), dtype=np.int64)
        np.add.at(taken, which, self.vectors[:, places, lanes].T)
        lane, quota = np.divmod(pairs, len(loans.left))
        np.add.at(reach, lane, loans.excess(taken, quota, self._lacking, contended[lane]))
        return reach, not_borrowing

    def costs(self, name_ranks: Rows) -> list[Cost]:
        """The cost of the victims of each lane (docs/quota.md#preemption)."""
        removed, table = self.removed, self.table
        priority = np.where(removed, table.priority[self.rows], NO_VICTIM)  # [J, L]
        top = priority.max(axis=0)  # [L]
        since = table.since[self.rows]
        if weighs_lost_work(table, self._loans):
            late = np.where(removed, since, 0.0).sum(axis=0)
        else:
            late = np.where(removed & (priority == top), since, np.inf).min(axis=0)
        keys = [
            *self._reach(),
            self._protection.beyond(removed, self._budgets.allowed).sum(axis=0),
            top,
            np.where(removed, priority + PRIORITY_OFFSET, 0).sum(axis=0),
            removed.sum(axis=0),
            np.where(removed, table.rank[self.rows], 0).sum(axis=0),
            -late,
            name_ranks[self.slots],
        ]
        return list(zip(*(key.tolist() for key in keys), strict=True))
