"""Victims on many nodes at once: one lane per node, decided in parallel over arrays.

On every lane candidates are taken away, least important first, until what is lacking is free; then given back
in reverse: those whose eviction would violate a disruption budget first, then from the most important down
(reference, rule 11). A reclaim goes through three passes: quotas that borrow a lacking resource, as far as
they borrow it; the same beyond that; and, only where no node can be had otherwise, every quota over min
(rules 7 and 10). The over-min test is repeated before each removal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.arrays.intern import Int32
from scheduler_core.framework.preemption.bounds import NO_VICTIM, PRIORITY_OFFSET, Cost, Field
from scheduler_core.framework.preemption.demand import NO_QUOTA, Demand, Lenders, Rows

Bool = NDArray[np.bool_]


class Lanes:
    """L lanes of at most J candidates each, in order of removal, over the K resources that are lacking.

    `numbers` int64 [L] are lanes of the field; `deficit` int64 [K, L] what must come free; `freed` int64
    [K, L]; `removed` bool [J, L] the victims; `violating` bool [J, L] candidates whose eviction would violate
    a disruption budget.
    """

    def __init__(self, field: Field, demand: Demand, numbers: Rows, deficit: Int64) -> None:
        self.table = field.table
        self.demand = demand
        self.slots = field.slots[numbers]
        self.rows: Int32 = field.rows[:, numbers]  # [J, L]
        own = deficit[:, numbers]
        self._lacking = np.flatnonzero((own > 0).any(axis=1))  # [K] rows of the resource index
        self.deficit: Int64 = own[self._lacking]
        chosen = field.chosen[:, numbers]  # [J, L]
        self._columns = np.flatnonzero(chosen.any(axis=1)).tolist()
        held = self.table.requests[self._lacking[:, None, None], self.rows]
        self.vectors: Int64 = np.where(chosen, held, 0)  # [K, J, L]
        self.removed: Bool = np.zeros(chosen.shape, dtype=np.bool_)  # [J, L]
        self.violating: Bool = np.zeros(chosen.shape, dtype=np.bool_)  # [J, L]
        self.freed: Int64 = np.zeros_like(self.deficit)  # [K, L]

    def victims(self, lane: int) -> Rows:
        """Rows of a lane's victims, most important first."""
        return self.rows[self.removed[:, lane], lane][::-1].astype(np.int64)

    @property
    def satisfied(self) -> Bool:
        """bool [L]: lanes whose victims free what is lacking."""
        return np.all(self.freed >= self.deficit, axis=0)

    # Removing

    def remove(self) -> None:
        """Take candidates away until every lane is satisfied, or none is left that may go."""
        if self.demand.lenders is None:
            for j in self._columns:
                self._take(j, self._useful(j))
        else:
            self._reclaim(self.demand.lenders)

    def _useful(self, j: int) -> Rows:
        """Lanes where candidate j still runs and frees something that is lacking."""
        useful = ((self.freed < self.deficit) & (self.vectors[:, j] > 0)).any(axis=0)
        return np.flatnonzero(useful & ~self.removed[j])

    def _take(self, j: int, lanes: Rows) -> None:
        self.removed[j, lanes] = True
        self.freed[:, lanes] += self.vectors[:, j, lanes]

    def _owner(self, lenders: Lenders) -> Int64:
        """int64 [J, L]: the number of each candidate's quota; NO_QUOTA or any for cells without candidate."""
        owner: Int64 = np.append(lenders.of, NO_QUOTA)[self.table.namespace[self.rows]]
        return owner

    def _reclaim(self, lenders: Lenders) -> None:
        owner = self._owner(lenders)
        borrowed = (lenders.used - lenders.min)[:, self._lacking]  # [Q, K]
        counts = lenders.counts[:, self._lacking]  # [Q, K]
        taken = np.zeros((len(self.slots), *borrowed.shape), dtype=np.int64)  # [L, Q, K]
        for within_loan in (True, False):
            for j in self._columns:
                lanes = self._useful(j)
                if not len(lanes):
                    continue
                quota, vectors = owner[j, lanes], self.vectors[:, j, lanes].T  # [M], [M, K]
                left = borrowed[quota] - taken[lanes, quota]  # [M, K]
                contended = (self.freed < self.deficit)[:, lanes].T & counts[quota]
                fit = ((left > 0) & contended).any(axis=1)
                if within_loan:
                    fit &= ~((left < vectors) & contended).any(axis=1)
                lanes, quota = lanes[fit], quota[fit]
                taken[lanes, quota] += vectors[fit]
                self._take(j, lanes)

    def remove_rest(self) -> None:
        """The third pass: quotas over min in any resource, tested over all resources before each removal.

        Where even that is not enough, the least important victims may have ended a loan that a larger one
        would have needed: then once more from the start, largest first.
        """
        lenders = self.demand.lenders
        if lenders is None:
            return
        owner = self._owner(lenders)
        for lane in range(len(self.slots)):
            self._sweep(lane, self._columns, lenders, owner)
            if (self.freed[:, lane] < self.deficit[:, lane]).any():
                self.removed[:, lane] = False
                self.freed[:, lane] = 0
                largest = np.argsort(-self.vectors[:, :, lane].sum(axis=0), kind="stable")
                self._sweep(lane, largest.tolist(), lenders, owner)

    def _sweep(self, lane: int, order: Sequence[int], lenders: Lenders, owner: Int64) -> None:
        """Remove a lane's candidates in some order, each only while its quota is over min."""
        width = lenders.used.shape[1]
        left = lenders.used - lenders.min  # [Q, R]
        removed = self.removed[:, lane]
        gone = self.rows[removed, lane]
        np.subtract.at(left, owner[removed, lane], self.table.requests[:width].T[gone])
        for j in order:
            needs = self.freed[:, lane] < self.deficit[:, lane]
            if not needs.any():
                return
            quota = owner[j, lane]
            helps = not removed[j] and (needs & (self.vectors[:, j, lane] > 0)).any()
            if helps and ((left[quota] > 0) & lenders.counts[quota]).any():
                left[quota] -= self.table.requests[:width, self.rows[j, lane]]
                self._take(j, np.array([lane]))

    # Giving back

    def reprieve(self) -> None:
        """Give back every victim that its lane can spare: violating ones first, most important first."""
        for violating in (True, False):
            for j in reversed(self._columns):
                lanes = np.flatnonzero(self.removed[j] & (self.violating[j] == violating))
                if len(lanes):
                    without = self.freed[:, lanes] - self.vectors[:, j, lanes]
                    spare = (without >= self.deficit[:, lanes]).all(axis=0)
                    self.removed[j, lanes[spare]] = False
                    self.freed[:, lanes[spare]] = without[:, spare]

    # The price

    def costs(self, name_ranks: Rows) -> list[Cost]:
        """What each lane's victims cost (reference, rule 12)."""
        removed, table = self.removed, self.table
        priority = np.where(removed, table.priority[self.rows], NO_VICTIM)  # [J, L]
        top = priority.max(axis=0)  # [L]
        start = np.where(removed & (priority == top), table.start[self.rows], np.inf)
        keys = [
            (removed & self.violating).sum(axis=0),
            top,
            np.where(removed, priority + PRIORITY_OFFSET, 0).sum(axis=0),
            removed.sum(axis=0),
            -start.min(axis=0),
            name_ranks[self.slots],
        ]
        return list(zip(*(key.tolist() for key in keys), strict=True))
