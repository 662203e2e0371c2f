"""What the victims of a node cost at the least, for all nodes at once: in this order nodes are looked at.

The exact victims of a node depend on loans and budgets and take a pass over its pods. A bound on their cost
takes sums over arrays; nodes whose bound is above the exact cost of another are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.arrays.intern import Int32
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.loans import Loans
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]
# Beyond loans, victims of quotas that borrow nothing lacking, violations, top priority, sum of priorities,
# victims, latest start (negative), the node's place by name.
Cost = tuple[float, ...]
# How many of the keys are 0 for victims that nobody could object to.
FLAWS: Final = 3

# Every victim adds at least 1 to the sum, so that a negative priority is no bargain (kube-scheduler).
PRIORITY_OFFSET: Final = 2**31
NO_VICTIM: Final = np.iinfo(np.int64).min
_FIRST_BLOCK: Final = 64
_LARGEST_BLOCK: Final = 1024


class Field:
    """The candidates of a demand on L nodes: rows int32 [J, L] of the pod table, least important first.

    `slots` int64 [L] are nodes without which nothing is lost: only they have candidates, or lack nothing.
    `chosen` bool [J, L] says which cells are candidates; others may hold any row.
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

    `deficit` is int64 [R, L], `lacking` int64 [K] the resources in which it is not 0 everywhere. `lanes`
    int64 are the numbers of these lanes in the field.
    """

    def __init__(self, field: Field, loans: Loans | None, deficit: Int64, name_ranks: Rows) -> None:
        self._field = field
        self.lacking = np.flatnonzero((deficit > 0).any(axis=1))  # [K]
        enough: Bool = np.ones(field.rows.shape, dtype=np.bool_)  # [J, L] when all up to here are gone
        fewest: Int64 = np.zeros(len(field.slots), dtype=np.int64)  # [L]
        small = True  # whether every candidate is smaller than every loan
        for row in self.lacking:
            amounts = field.amounts(int(row))
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
        """What victims take beyond loans at the least: as much as the smallest that is no loan by itself,

        where those that are do not free enough.
        """
        field, lacking = self._field, self.lacking
        table = field.table
        owners = loans.owners(np.arange(table.size))
        held = table.requests[lacking, : table.size].T  # [rows, K]
        larger: Bool = np.append((held > loans.limit[owners][:, lacking]).any(axis=1), False)  # [rows + 1]
        odd = field.chosen & larger[field.rows]  # [J, L]
        if not odd.any():
            return
        places, lanes = np.nonzero(odd)
        rows = field.rows[places, lanes]
        reach = loans.excess(held[rows], owners[rows], lacking, deficit[lacking][:, lanes].T > 0)
        least: Int64 = np.full(len(field.slots), np.iinfo(np.int64).max, dtype=np.int64)  # [L]
        np.minimum.at(least, lanes[reach > 0], reach[reach > 0])
        fits = field.chosen.copy()
        fits[places[reach > 0], lanes[reach > 0]] = False
        short: Bool = np.zeros(len(field.slots), dtype=np.bool_)  # [L]
        for row in lacking:
            short |= np.where(fits, table.requests[row][field.rows], 0).sum(axis=0) < deficit[row]
        self._reach = np.where(short, least, 0)[self.lanes]

    def _costs(self, enough: Bool, fewest: Int64, name_ranks: Rows) -> None:
        """The keys of `Cost` per lane. Whatever frees enough has a victim at `last` or behind it."""
        field, table, lanes = self._field, self._field.table, self.lanes
        last = np.argmax(enough, axis=0)  # [L]
        bound = field.rows[last, lanes]
        none = fewest == 0
        self._top: Int64 = np.where(none, NO_VICTIM, table.priority[bound])
        self._count = fewest
        self._start = np.where(none, -np.inf, -table.start[bound])
        self._name: Int64 = name_ranks[field.slots[lanes]]
        self._total: Int64 = np.zeros(len(lanes), dtype=np.int64)  # [L] known once a lane is sorted

    def _totals(self, positions: Rows) -> Int64:
        """int64: for some lanes the sum of the priorities of the least important so many, and of the top."""
        field, lanes, count = self._field, self.lanes[positions], self._count[positions]
        chosen = field.chosen[:, lanes]  # [J, M]
        price = field.table.priority[field.rows[:, lanes]] + PRIORITY_OFFSET
        cheap = chosen & (np.cumsum(chosen, axis=0) < count)
        sums = np.where(cheap, price, 0).sum(axis=0)
        out: Int64 = np.where(count > 0, sums + self._top[positions] + PRIORITY_OFFSET, 0)
        return out

    def cost(self, position: int) -> Cost:
        """The bound of the lane at a position of `lanes`."""
        keys = (self._top, self._total, self._count, self._start, self._name)
        return (float(self._reach[position]), 0.0, 0.0, *(key[position].item() for key in keys))

    def blocks(self) -> Iterator[tuple[Rows, Cost | None]]:
        """(positions of `lanes` in ascending order of their bound, the least that others can cost).

        Blocks grow, so that to look at all takes few of them. Most often the lanes with the lowest possible
        top priority suffice, and the others need not be sorted.
        """
        within = np.flatnonzero(self._reach == 0)
        beyond, length = np.flatnonzero(self._reach), _FIRST_BLOCK
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
            length = min(4 * length, _LARGEST_BLOCK)
        yield from self._parts(self._sorted(beyond), length, None)

    def _parts(self, order: Rows, length: int, others: Cost | None) -> Iterator[tuple[Rows, Cost | None]]:
        while len(order):
            block, order = order[:length], order[length:]
            length = min(4 * length, _LARGEST_BLOCK)
            yield block, self.cost(int(order[0])) if len(order) else others

    def _sorted(self, positions: Rows) -> Rows:
        self._total[positions] = self._totals(positions)
        keys = (self._name, self._start, self._count, self._total, self._top, self._reach)
        order: Rows = positions[np.lexsort([key[positions] for key in keys])]
        return order
