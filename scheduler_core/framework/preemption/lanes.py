"""Victims on all nodes at once: one lane per node, decided in parallel over arrays.

On every lane candidates are taken away, least important first, until what is lacking is free; then given back
in reverse: those whose eviction would violate a disruption budget first, then from the most important down
(reference, rule 11). A reclaim goes through three passes, each only for lanes that still lack something:
quotas that borrow a lacking resource, as far as they borrow it; the same beyond that; every quota over min
(rules 7 and 10). The over-min test is repeated before each removal.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.demand import Demand, Lenders, Rows
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]

EMPTY: Final = -1


def removal_order(table: PodTable, rows: Rows) -> Rows:
    """Rows from the least important: lowest priority, then latest start."""
    return rows[np.lexsort((rows, -table.start[rows], table.priority[rows]))]


class Lanes:
    """L lanes of at most J candidates each, in order of removal.

    `slots` int64 [L]; `rows` int64 [L, J] rows of the pod table (EMPTY behind the last); `deficit` int64
    [L, R] what must come free; `removed` bool [L, J] the victims; `violating` bool [L, J] candidates whose
    eviction would violate a disruption budget.
    """

    def __init__(self, table: PodTable, demand: Demand, slots: Rows, deficit: Int64) -> None:
        self.table = table
        self.demand = demand
        self.slots = slots
        self.deficit = deficit
        self.rows = _by_slot(table, removal_order(table, demand.candidates), slots)
        self.vectors: Int64 = table.requests[: deficit.shape[1]].T[self.rows]  # [L, J, R]
        self.present: Bool = self.rows != EMPTY  # [L, J]
        self.vectors[~self.present] = 0
        self.removed: Bool = np.zeros(self.rows.shape, dtype=np.bool_)  # [L, J]
        self.violating: Bool = np.zeros(self.rows.shape, dtype=np.bool_)  # [L, J]
        self.freed: Int64 = np.zeros_like(deficit)  # [L, R]

    @property
    def satisfied(self) -> Bool:
        """bool [L]: lanes on which enough is free."""
        enough: Bool = np.all(self.freed >= self.deficit, axis=1)
        return enough

    def keep(self, chosen: Bool) -> None:
        """Drop all other lanes; `chosen` is bool [L]."""
        self.slots, self.deficit, self.freed = self.slots[chosen], self.deficit[chosen], self.freed[chosen]
        self.rows, self.vectors = self.rows[chosen], self.vectors[chosen]
        self.present, self.removed = self.present[chosen], self.removed[chosen]
        self.violating = self.violating[chosen]

    def victims(self, lane: int) -> Rows:
        """Rows of a lane's victims, most important first."""
        return self.rows[lane][self.removed[lane]][::-1]

    # Removing

    def remove(self) -> None:
        """Take candidates away until every lane is satisfied; lanes that cannot be are dropped."""
        self.keep((self.vectors.sum(axis=1) >= self.deficit).all(axis=1))
        lenders = self.demand.lenders
        if lenders is None:
            for j in range(self.rows.shape[1]):
                self._take(j, self._useful(j))
            self.keep(self.satisfied)
            return
        self._owner = np.append(lenders.of, EMPTY)[self.table.namespace[self.rows]]  # [L, J]
        taken = np.zeros((len(self.slots), *lenders.used.shape), dtype=np.int64)  # [L, Q, R]
        for only_contended, within_loan in ((True, True), (True, False), (False, False)):
            for j in range(self.rows.shape[1]):
                self._reclaim(j, lenders, taken, only_contended, within_loan)
        self.keep(self.satisfied)

    def _useful(self, j: int) -> Bool:
        """bool [L]: candidate j is there, still running, and frees something that its lane lacks."""
        lacking = self.freed < self.deficit  # [L, R]
        useful = (lacking & (self.vectors[:, j] > 0)).any(axis=1)
        return useful & self.present[:, j] & ~self.removed[:, j]

    def _take(self, j: int, chosen: Bool) -> None:
        self.removed[:, j] |= chosen
        self.freed += np.where(chosen[:, None], self.vectors[:, j], 0)

    def _reclaim(self, j: int, lenders: Lenders, taken: Int64, contended: bool, within_loan: bool) -> None:
        lanes = np.flatnonzero(self._useful(j))
        if not len(lanes):
            return
        quota = self._owner[lanes, j]
        left = lenders.used[quota] - taken[lanes, quota]  # [M, R]
        over = (left > lenders.min[quota]) & lenders.counts[quota]  # [M, R]
        if contended:
            lacking = self.freed[lanes] < self.deficit[lanes]
            over &= lacking
            if within_loan:
                after = left - self.vectors[lanes, j]
                over &= ~((after < lenders.min[quota]) & lacking).any(axis=1)[:, None]
        lanes = lanes[over.any(axis=1)]
        quota = self._owner[lanes, j]
        taken[lanes, quota] += self.vectors[lanes, j]
        chosen: Bool = np.zeros(len(self.slots), dtype=np.bool_)  # [L]
        chosen[lanes] = True
        self._take(j, chosen)

    # Giving back

    def reprieve(self) -> None:
        """Give back every victim that its lane can spare: violating ones first, most important first."""
        for violating in (True, False):
            for j in range(self.rows.shape[1] - 1, -1, -1):
                considered = self.removed[:, j] & (self.violating[:, j] == violating)
                if considered.any():
                    without = self.freed - self.vectors[:, j]
                    spare = considered & (without >= self.deficit).all(axis=1)
                    self.removed[:, j] &= ~spare
                    self.freed = np.where(spare[:, None], without, self.freed)


def _by_slot(table: PodTable, ordered: Rows, slots: Rows) -> Rows:
    """int64 [L, J]: candidates of each slot in the given order, EMPTY behind the last."""
    lane_of: Rows = np.full(int(max(slots.max(initial=-1), table.slot.max(initial=-1))) + 1, EMPTY)  # [N]
    lane_of[slots] = np.arange(len(slots))
    lanes = lane_of[table.slot[ordered]]
    ordered, lanes = ordered[lanes != EMPTY], lanes[lanes != EMPTY]
    grouped = np.argsort(lanes, kind="stable")
    ordered, lanes = ordered[grouped], lanes[grouped]
    counts = np.bincount(lanes, minlength=len(slots))  # [L]
    starts = np.cumsum(counts) - counts
    out: Rows = np.full((len(slots), int(counts.max(initial=0))), EMPTY, dtype=np.int64)  # [L, J]
    out[lanes, np.arange(len(lanes)) - starts[lanes]] = ordered
    return out


def rank(lanes: Lanes, names: list[str]) -> list[int]:
    """Lanes from best to worst (reference, rule 12).

    Fewest violations, lowest top priority, lowest sum of priorities, fewest victims, latest start of the most
    important victims; the node's name decides among equally best lanes.
    """
    removed, table = lanes.removed, lanes.table
    rows = np.where(removed, lanes.rows, 0)
    lowest = np.iinfo(np.int64).min
    priority = np.where(removed, table.priority[rows], lowest)  # [L, J]
    top = priority.max(axis=1, initial=lowest)  # [L]
    # Every victim adds at least 1, so that a negative priority is no bargain (kube-scheduler).
    total = np.where(removed, priority + 2**31, 0).sum(axis=1)
    start = np.where(removed & (priority == top[:, None]), table.start[rows], np.inf)
    keys = [
        -start.min(axis=1, initial=np.inf),
        removed.sum(axis=1),
        total,
        top,
        (removed & lanes.violating).sum(axis=1),
    ]
    order = np.lexsort(keys)
    if not len(order):
        return []
    equal: Bool = np.ones(len(order), dtype=np.bool_)  # [L]
    for key in keys:
        equal &= key[order] == key[order[0]]
    best = sorted(order[equal], key=lambda lane: names[int(lanes.slots[lane])])
    return [int(lane) for lane in (*best, *order[~equal])]
