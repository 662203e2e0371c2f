"""What victims take of the loans of their quotas: which sets are lawful, and how far one reaches into a min.

A quota lends nobody what it is guaranteed: victims are taken within what it borrows of the contended
resources as far as any choice allows (reference, rules 7 and 10).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.arrays.intern import Int32
from scheduler_core.framework.preemption.demand import NO_QUOTA, Demand, Lenders, Rows
from scheduler_core.framework.preemption.turns import gives_first
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]

# Stages of a reclaim: quotas above their max, as far as they borrow what is lacking; all who borrow it, as
# far as they do; the same beyond that; whoever is over min.
FIRST: Final = -1
WITHIN: Final = 0
BEYOND: Final = 1
OTHERS: Final = 2

# What lies beyond a loan is told in millionths of what the preemptor requests, rounded up.
_PARTS: Final = 1_000_000
# No more than this per resource, so that sums stay exact.
_MOST: Final = float(2**50)


class Loans:
    """The lenders of a demand, Q of them: `left` int64 [Q, R] is use above min (below 0 where there is room),

    `limit` the same without what is below 0, `counts` bool [Q, R] which resources are a quota's business,
    `first` bool [Q] who gives before the others, being above its max.
    """

    def __init__(self, table: PodTable, demand: Demand, lenders: Lenders) -> None:
        self._table = table
        self._of = np.append(lenders.of, NO_QUOTA)  # [namespaces + 1]
        self._request = np.maximum(demand.request, 1)  # [R]
        self.width = lenders.used.shape[1]
        self.left: Int64 = lenders.used - lenders.min
        self.limit: Int64 = np.maximum(self.left, 0)
        self.counts = lenders.counts
        self.first = gives_first(lenders, demand.request)

    def smallest(self, resource: int) -> int:
        """The least that a quota borrows of a resource that is its business."""
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
        """int64 [M]: by how much what is taken of quotas (int64 [M, K]) exceeds what they borrow.

        `contended` bool [M, K] says which of the K resources are what victims go for.
        """
        beyond = np.maximum(taken - self.limit[owners][:, resources], 0)
        beyond *= contended & self.counts[owners][:, resources]
        parts = np.ceil(beyond * float(_PARTS) / self._request[resources])
        out: Int64 = np.minimum(parts, _MOST).sum(axis=1).astype(np.int64)
        return out


def stages_of(loans: Loans | None) -> tuple[int, ...]:
    """The stages in which victims are taken, as far as there is anybody to take."""
    if loans is None:
        return (WITHIN,)
    return (FIRST, WITHIN, BEYOND, OTHERS) if loans.first.any() else (WITHIN, BEYOND, OTHERS)


def loans_of(table: PodTable, demand: Demand) -> Loans | None:
    """The loans that a demand may reclaim, or None where its victims are found by priority alone."""
    return None if demand.lenders is None else Loans(table, demand, demand.lenders)


def contended_by(demand: Demand, deficit: Int64) -> Bool:
    """bool [R]: what victims go for: what is lacking (int64 [R]), or all that is requested if nothing is."""
    lacking: Bool = deficit > 0
    return lacking if lacking.any() else demand.request > 0
