"""Lower bounds of what victims cost on each node, computed for all nodes at once.

The exact victims of a node depend on loans and budgets and take a pass over its pods. A bound takes sums over
arrays only. Nodes whose bound exceeds the exact cost of another node need no pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.loans import Loans, weighs_lost_work
from scheduler_core.state.placed.pods import PodTable

# Beyond loans, victims of quotas that borrow nothing lacking, violations, top priority, sum of priorities,
# victims, what they mean to their gangs, latest start or sum of starts (negative), the node's place by name.
# Starts are times from which on work would be lost.
Cost = tuple[float, ...]
# The number of leading keys that are 0 for victims which violate no loan and no budget.
FLAWS: Final = 3
# The number of leading keys that bound the cost whatever is evicted besides: up to the number of victims.
SURE_KEYS: Final = 6

# Every victim adds at least 1 to the sum, also one of negative priority (as in kube-scheduler).
PRIORITY_OFFSET: Final = 2**31
NO_VICTIM: Final = np.iinfo(np.int64).min
FIRST_BLOCK: Final = 64
LARGEST_BLOCK: Final = 1024


class CandidateMatrix:
    """The candidates of a demand on L nodes: rows int32 [J, L] of the pod table, least important first.

    `slots` int64 [L] are the nodes to consider. `chosen` bool [J, L] marks the cells that are candidates;
    other cells may hold any row.
    """

    def __init__(self, table: PodTable, demand: Demand, slots: Rows, size: int) -> None:
        self.table = table
        self.slots = slots
        rows = table.grid.rows(table, size)  # [J, N]
        self.rows: Int32 = rows if len(slots) == size else rows[:, slots]
        eligible = np.append(demand.eligible, False)  # the last is for empty cells
        self.chosen: Bool = eligible[self.rows]

    def amounts(self, resource: int) -> Int64:
        """int64 [J, L]: what the candidates hold of one resource."""
        out: Int64 = np.where(self.chosen, self.table.requests[resource][self.rows], 0)
        return out


class Bounds:
    """Lower bounds of the costs of all lanes that can free what is lacking.

    `deficit` is int64 [R, L]; `lacking` int64 [K] are the resources with a deficit on any lane. `lanes` int64
    are the numbers of these lanes in the matrix.
    """

    def __init__(
        self, matrix: CandidateMatrix, loans: Loans | None, deficit: Int64, name_ranks: Rows
    ) -> None:
        self._matrix = matrix
        self._lost = weighs_lost_work(matrix.table, loans)
        self.lacking = np.flatnonzero((deficit > 0).any(axis=1))  # [K]
        enough: Bool = np.ones(matrix.rows.shape, dtype=np.bool_)  # [J, L] when all up to here are gone
        fewest: Int64 = np.zeros(len(matrix.slots), dtype=np.int64)  # [L]
        small = True  # every candidate is smaller than every loan
        for row in self.lacking:
            amounts = matrix.amounts(int(row))
            if loans is not None:
                small &= int(amounts.max()) <= loans.smallest(int(row))
            enough &= np.cumsum(amounts, axis=0) >= deficit[row]
            largest = np.maximum(amounts.max(axis=0), 1)
            np.maximum(fewest, -(-deficit[row] // largest), out=fewest)
        self.lanes: Rows = np.flatnonzero(enough[-1])
        self._reach: Int64 = np.zeros(len(self.lanes), dtype=np.int64)  # [L]
        if loans is not None and not small:
            self._reaches(loans, deficit)
        self._costs(enough[:, self.lanes], fewest[self.lanes], name_ranks)

    def _reaches(self, loans: Loans, deficit: Int64) -> None:
        """Lower bound of what victims take beyond loans.

        Where victims within loans do not free enough, this is the smallest excess of a single candidate.
        """
        matrix, lacking = self._matrix, self.lacking
        table = matrix.table
        owners = loans.owners(np.arange(table.size))
        held = table.requests[lacking, : table.size].T  # [rows, K]
        larger: Bool = np.append((held > loans.limit[owners][:, lacking]).any(axis=1), False)  # [rows + 1]
        odd = matrix.chosen & larger[matrix.rows]  # [J, L]
        if not odd.any():
            return
        places, lanes = np.nonzero(odd)
        rows = matrix.rows[places, lanes]
        reach = loans.excess(held[rows], owners[rows], lacking, deficit[lacking][:, lanes].T > 0)
        least: Int64 = np.full(len(matrix.slots), np.iinfo(np.int64).max, dtype=np.int64)  # [L]
        np.minimum.at(least, lanes[reach > 0], reach[reach > 0])
        fits = matrix.chosen.copy()
        fits[places[reach > 0], lanes[reach > 0]] = False
        short: Bool = np.zeros(len(matrix.slots), dtype=np.bool_)  # [L]
        for row in lacking:
            short |= np.where(fits, table.requests[row][matrix.rows], 0).sum(axis=0) < deficit[row]
        self._reach = np.where(short, least, 0)[self.lanes]

    def _costs(self, enough: Bool, fewest: Int64, name_ranks: Rows) -> None:
        """The keys of `Cost` per lane. A set that frees enough has a victim at `last` or above it."""
        matrix, table, lanes = self._matrix, self._matrix.table, self.lanes
        last = np.argmax(enough, axis=0)  # [L]
        bound = matrix.rows[last, lanes]
        none = fewest == 0
        self._top: Int64 = np.where(none, NO_VICTIM, table.priority[bound])
        self._count = fewest
        late = table.since[bound]
        if self._lost:
            # Of as many victims none loses less work than those that all are the latest.
            since = table.since[matrix.rows[:, lanes]]  # [J, L]
            late = fewest * np.where(matrix.chosen[:, lanes], since, 0.0).max(axis=0)
        self._start = np.where(none, -np.inf, -late)
        self._name: Int64 = name_ranks[matrix.slots[lanes]]
        self._total: Int64 = np.zeros(len(lanes), dtype=np.int64)  # [L] known once a lane is sorted

    def _totals(self, positions: Rows) -> Int64:
        """int64: for some lanes the lowest possible sum of the priorities of the victims."""
        matrix, lanes, count = self._matrix, self.lanes[positions], self._count[positions]
        chosen = matrix.chosen[:, lanes]  # [J, M]
        price = matrix.table.priority[matrix.rows[:, lanes]] + PRIORITY_OFFSET
        cheap = chosen & (np.cumsum(chosen, axis=0) < count)
        sums = np.where(cheap, price, 0).sum(axis=0)
        out: Int64 = np.where(count > 0, sums + self._top[positions] + PRIORITY_OFFSET, 0)
        return out

    def cost(self, position: int) -> Cost:
        """The bound of the lane at a position of `lanes`."""
        # Where no victim has a rank, none at or above `last` started later than the pod there.
        first = (key[position].item() for key in (self._top, self._total, self._count))
        last = (key[position].item() for key in (self._start, self._name))
        return (float(self._reach[position]), 0.0, 0.0, *first, 0.0, *last)

    def blocks(self) -> Iterator[tuple[Rows, Cost | None]]:
        """(positions of `lanes` in ascending order of their bound, lower bound of all later lanes).

        Blocks grow, so that all lanes take few blocks. The lanes with the lowest top priority usually
        suffice, and the others need not be sorted.
        """
        within = np.flatnonzero(self._reach == 0)
        beyond, length = np.flatnonzero(self._reach), FIRST_BLOCK
        while len(within):
            tops, last = self._top[within], min(length, len(within)) - 1
            limit = np.partition(tops, last)[last]
            order, within = self._sorted(within[tops <= limit]), within[tops > limit]
            # A cost without the later keys is smaller than any with them.
            others: Cost | None = None
            if len(within):
                others = (0.0, 0.0, 0.0, float(self._top[within].min()))
            elif len(beyond):
                others = (float(self._reach[beyond].min()),)
            yield from self._parts(order, length, others)
            length = min(4 * length, LARGEST_BLOCK)
        yield from self._parts(self._sorted(beyond), length, None)

    def _parts(self, order: Rows, length: int, others: Cost | None) -> Iterator[tuple[Rows, Cost | None]]:
        while len(order):
            block, order = order[:length], order[length:]
            length = min(4 * length, LARGEST_BLOCK)
            yield block, self.cost(int(order[0])) if len(order) else others

    def _sorted(self, positions: Rows) -> Rows:
        self._total[positions] = self._totals(positions)
        keys = (self._name, self._start, self._count, self._total, self._top, self._reach)
        order: Rows = positions[np.lexsort([key[positions] for key in keys])]
        return order
