"""Loans: how much each borrowing quota uses above its min, and which victims end a loan.

A quota keeps what it is guaranteed: victims are taken within what the quota borrows of the contended
resources as far as possible (docs/quota.md#preemption).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.framework.preemption.demand import NO_QUOTA, Borrowers, Demand, Rows, quotas_above_max
from scheduler_core.state.placed.pods import PodTable

# Stages of a reclaim: quotas above their max, within what they borrow of the lacking resources; all quotas
# that borrow these resources, within what they borrow; the same quotas beyond that; all quotas over min.
FIRST: Final = -1
WITHIN: Final = 0
BEYOND: Final = 1
OTHERS: Final = 2
# After all stages: pods that no stage may evict.
UNLAWFUL: Final = 3

# Amounts beyond a loan are in millionths of what the preemptor requests, rounded up.
_PARTS: Final = 1_000_000
# Upper limit per resource, so that sums stay exact.
_MOST: Final = float(2**50)


class Loans:
    """The loans of the Q borrowers of a demand.

    `left` int64 [Q, R] is use minus min (negative: room); `limit` the same, at least 0; `counts` bool [Q, R]
    the resources that a quota limits; `first` bool [Q] the quotas whose pods go first: those above their max,
    and in a tree the nearer ones.
    """

    def __init__(self, table: PodTable, demand: Demand, borrowers: Borrowers) -> None:
        self._table = table
        self._of = np.append(borrowers.of, NO_QUOTA)  # [namespaces + 1]
        self._request = np.maximum(demand.request, 1)  # [R]
        self.width = borrowers.used.shape[1]
        self.left: Int64 = borrowers.used - borrowers.min
        self.limit: Int64 = np.maximum(self.left, 0)
        self.counts = borrowers.counts
        self.first = quotas_above_max(borrowers, demand.request)
        if borrowers.first is not None:
            self.first = self.first | borrowers.first

    def smallest(self, resource: int) -> int:
        """The smallest amount that a quota borrows of a resource that it limits."""
        return int(self.limit[self.counts[:, resource], resource].min(initial=np.iinfo(np.int64).max))

    def owners(self, rows: Int32 | Rows) -> Int64:
        """The number of each pod's quota, in the shape of `rows`; NO_QUOTA or any for empty cells."""
        found: Int64 = self._of[self._table.namespace[rows]]
        return found

    def borrowers(self, contended: Bool) -> Bool:
        """bool [Q]: quotas that borrow a contended resource (bool [R])."""
        borrows: Bool = (self.left > 0) & self.counts & contended  # [Q, R]
        return np.asarray(borrows.any(axis=1))

    def excess(self, taken: Int64, owners: Int64, resources: Rows, contended: Bool) -> Int64:
        """int64 [M]: by how much amounts taken from quotas (int64 [M, K]) exceed what these borrow.

        `contended` bool [M, K] marks the contended ones of the K resources.
        """
        beyond = np.maximum(taken - self.limit[owners][:, resources], 0)
        beyond *= contended & self.counts[owners][:, resources]
        parts = np.ceil(beyond * float(_PARTS) / self._request[resources])
        out: Int64 = np.minimum(parts, _MOST).sum(axis=1).astype(np.int64)
        return out


def stages_of(loans: Loans | None) -> tuple[int, ...]:
    """The stages in which victims are chosen; stages without possible victims are left out."""
    if loans is None:
        return (WITHIN,)
    return (FIRST, WITHIN, BEYOND, OTHERS) if loans.first.any() else (WITHIN, BEYOND, OTHERS)


def loans_of(table: PodTable, demand: Demand) -> Loans | None:
    """The loans that a demand may reclaim, or None if its victims are chosen by priority alone."""
    return None if demand.borrowers is None else Loans(table, demand, demand.borrowers)


def contended_by(demand: Demand, deficit: Int64) -> Bool:
    """bool [R]: the contended resources: those lacking (int64 [R]), or all requested ones if none is."""
    lacking: Bool = deficit > 0
    return lacking if lacking.any() else demand.request > 0
