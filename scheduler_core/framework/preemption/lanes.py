"""Victims on all nodes at once: one lane per node, decided in parallel over arrays.

On every lane candidates are taken away, least important first, until what is lacking is free; then given back
in reverse: those whose eviction would violate a disruption budget first, then from the most important down
(reference, rule 11). A reclaim goes through three passes, each only for lanes that still lack something:
quotas that borrow a lacking resource, as far as they borrow it; the same beyond that; every quota over min
(rules 7 and 10). The over-min test is repeated before each removal.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.demand import Demand, Lenders, Rows
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]

EMPTY: Final = -1
# Lanes that are looked at one by one, where the passes over all lanes at once found nothing.
_MOST_SINGLE_LANES: Final = 512


class Lanes:
    """L lanes of at most J candidates each, in order of removal, over the K resources that are lacking.

    `slots` int64 [L]; `rows` int64 [L, J] rows of the pod table (EMPTY behind the last); `deficit` int64
    [L, K] what must come free; `freed` int64 [L, K]; `removed` bool [L, J] the victims; `violating` bool
    [L, J] candidates whose eviction would violate a disruption budget.
    """

    def __init__(self, table: PodTable, demand: Demand, slots: Rows, deficit: Int64) -> None:
        self.table = table
        self.demand = demand
        self._lacking = np.flatnonzero((deficit > 0).any(axis=0))  # [K] rows of the resource index
        ordered, lanes, position = _by_slot(table, demand.candidates, slots)
        enough = self._free_enough(ordered, lanes, deficit)
        lane_of: Rows = np.cumsum(enough) - 1  # [L] number among those that stay
        keep = enough[lanes]
        ordered, lanes, position = ordered[keep], lane_of[lanes[keep]], position[keep]
        self.slots = slots[enough]
        self.deficit: Int64 = deficit[enough][:, self._lacking]
        shape = (len(self.slots), int(position.max(initial=-1)) + 1)
        self.rows: Rows = np.full(shape, EMPTY, dtype=np.int64)  # [L, J]
        self.rows[lanes, position] = ordered
        self.vectors: Int64 = np.zeros((*shape, len(self._lacking)), dtype=np.int64)  # [L, J, K]
        self.vectors[lanes, position] = table.requests[self._lacking][:, ordered].T
        self.removed: Bool = np.zeros(shape, dtype=np.bool_)  # [L, J]
        self.violating: Bool = np.zeros(shape, dtype=np.bool_)  # [L, J]
        self.freed: Int64 = np.zeros_like(self.deficit)  # [L, K]

    def _free_enough(self, ordered: Rows, lanes: Rows, deficit: Int64) -> Bool:
        """bool [L]: lanes on which all candidates together free what is lacking."""
        enough: Bool = np.ones(len(deficit), dtype=np.bool_)  # [L]
        for row in self._lacking:
            freed = np.bincount(lanes, weights=self.table.requests[row][ordered], minlength=len(deficit))
            # Sums in float64 are exact to 2^53; beyond that a lane may stay that the removal then drops.
            enough &= freed >= deficit[:, row]
        return enough

    def _keep(self, chosen: Bool) -> None:
        """Drop all other lanes; `chosen` is bool [L]."""
        self.slots, self.deficit, self.freed = self.slots[chosen], self.deficit[chosen], self.freed[chosen]
        self.rows, self.vectors = self.rows[chosen], self.vectors[chosen]
        self.removed, self.violating = self.removed[chosen], self.violating[chosen]

    def victims(self, lane: int) -> Rows:
        """Rows of a lane's victims, most important first."""
        return self.rows[lane][self.removed[lane]][::-1]

    # Removing

    def remove(self) -> None:
        """Take candidates away until every lane is satisfied; lanes that cannot be are dropped."""
        lenders = self.demand.lenders
        if lenders is None:
            for j in range(self.rows.shape[1]):
                self._take(j, self._useful(j))
        else:
            self._reclaim_all(lenders)
        self._keep(np.all(self.freed >= self.deficit, axis=1, keepdims=False))

    def _useful(self, j: int) -> Rows:
        """Lanes where candidate j still runs and frees something that is lacking."""
        useful = ((self.freed < self.deficit) & (self.vectors[:, j] > 0)).any(axis=1)
        useful &= ~self.removed[:, j]
        return np.flatnonzero(useful)

    def _take(self, j: int, lanes: Rows) -> None:
        self.removed[lanes, j] = True
        self.freed[lanes] += self.vectors[lanes, j]

    def _reclaim_all(self, lenders: Lenders) -> None:
        owner = np.append(lenders.of, EMPTY)[self.table.namespace[self.rows]]  # [L, J]
        borrowed = (lenders.used - lenders.min)[:, self._lacking]  # [Q, K]
        counts = lenders.counts[:, self._lacking]  # [Q, K]
        taken = np.zeros((len(self.slots), *borrowed.shape), dtype=np.int64)  # [L, Q, K]
        for within_loan in (True, False):
            for j in range(self.rows.shape[1]):
                lanes = self._useful(j)
                if not len(lanes):
                    continue
                quota = owner[lanes, j]
                left = borrowed[quota] - taken[lanes, quota]  # [M, K]
                contended = (self.freed[lanes] < self.deficit[lanes]) & counts[quota]
                fit = ((left > 0) & contended).any(axis=1)
                if within_loan:
                    fit &= ~((left < self.vectors[lanes, j]) & contended).any(axis=1)
                lanes, quota = lanes[fit], quota[fit]
                taken[lanes, quota] += self.vectors[lanes, j]
                self._take(j, lanes)
        still_open = (self.freed < self.deficit).any(axis=1)
        if still_open.all():
            # Only if borrowers of what is lacking suffice nowhere do the others come into question (rule 10).
            self._reclaim_rest(lenders, owner)

    def _reclaim_rest(self, lenders: Lenders, owner: Rows) -> None:
        """The third pass: quotas over min in any resource, tested over all resources before each removal.

        Where even that is not enough, the least important victims may have ended a loan that a larger one
        would have needed: then once more from the start, largest first.
        """
        for lane in range(min(len(self.slots), _MOST_SINGLE_LANES)):
            self._sweep(lane, range(self.rows.shape[1]), lenders, owner)
            if (self.freed[lane] < self.deficit[lane]).any():
                self.removed[lane] = False
                self.freed[lane] = 0
                largest = np.argsort(-self.vectors[lane].sum(axis=1), kind="stable")
                self._sweep(lane, [int(j) for j in largest], lenders, owner)

    def _sweep(self, lane: int, order: Sequence[int], lenders: Lenders, owner: Rows) -> None:
        """Remove a lane's candidates in some order, each only while its quota is over min."""
        width = lenders.used.shape[1]
        left = lenders.used - lenders.min  # [Q, R]
        gone = self.rows[lane][self.removed[lane]]
        np.subtract.at(left, owner[lane][self.removed[lane]], self.table.requests[:width].T[gone])
        for j in order:
            needs = self.freed[lane] < self.deficit[lane]
            if not needs.any():
                return
            quota = owner[lane, j]
            helps = not self.removed[lane, j] and (needs & (self.vectors[lane, j] > 0)).any()
            if helps and ((left[quota] > 0) & lenders.counts[quota]).any():
                left[quota] -= self.table.requests[:width, self.rows[lane, j]]
                self._take(j, np.array([lane]))

    # Giving back

    def reprieve(self) -> None:
        """Give back every victim that its lane can spare: violating ones first, most important first."""
        for violating in (True, False):
            for j in range(self.rows.shape[1] - 1, -1, -1):
                lanes = np.flatnonzero(self.removed[:, j] & (self.violating[:, j] == violating))
                if len(lanes):
                    without = self.freed[lanes] - self.vectors[lanes, j]
                    spare = (without >= self.deficit[lanes]).all(axis=1)
                    self.removed[lanes[spare], j] = False
                    self.freed[lanes[spare]] = without[spare]


def _by_slot(table: PodTable, candidates: Rows, slots: Rows) -> tuple[Rows, Rows, Rows]:
    """(rows, their lane, their position in it), each int64 [candidates on these slots], in removal order."""
    last = max(int(table.slot.max(initial=-1)), int(slots.max(initial=-1)))
    lane_of = np.full(last + 1, EMPTY, dtype=_lane_type(len(slots)))  # [N]
    lane_of[slots] = np.arange(len(slots))
    lanes = lane_of[table.slot[candidates]]
    here = lanes != EMPTY
    rows, lanes = candidates[here], lanes[here]
    # Candidates come in removal order, so a stable sort by lane keeps it within each.
    grouped = np.argsort(lanes, kind="stable")
    rows, lanes = rows[grouped], lanes[grouped].astype(np.int64)
    counts = np.bincount(lanes, minlength=len(slots))  # [L]
    starts = np.cumsum(counts) - counts
    return rows, lanes, np.arange(len(lanes)) - starts[lanes]


def _lane_type(lanes: int) -> type[np.signedinteger]:
    """The smallest type that numbers the lanes: 16 bits are sorted by radix, several times faster."""
    return np.int16 if lanes < 2**15 else np.int64


def rank(lanes: Lanes, names: list[str], limit: int) -> list[int]:
    """The best `limit` lanes, best first (reference, rule 12).

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
    best = heapq.nsmallest(limit, order[equal], key=lambda lane: names[int(lanes.slots[lane])])
    return [int(lane) for lane in (*best, *order[~equal][:limit])][:limit]
