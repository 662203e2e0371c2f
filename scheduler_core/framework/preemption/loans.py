"""Loans: how much each borrowing quota uses above its min, and which victims end a loan.

A quota keeps what it is guaranteed: victims are taken within what the quota borrows of the contended
resources as far as possible (docs/quota.md#preemption).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.framework.preemption.demand import (
    NO_QUOTA,
    Borrowers,
    Demand,
    Rows,
    quotas_above_max,
    weightless,
)
from scheduler_core.state.placed.pods import PodTable

# Stages of a reclaim: quotas that go first, within what they borrow of the lacking resources; all quotas
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
    the resources that a quota limits; `first` bool [Q] the quotas whose pods go first: those above their
    max, in a tree the nearer ones, and in a fair move those of weight 0. `fair` is the fair move, None in a
    reclaim.
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
        self.fair = borrowers.fair
        if self.strict:
            self.first |= weightless(borrowers)
        if borrowers.first is not None:
            self.first |= borrowers.first

    def smallest(self, resource: int) -> int:
        """The smallest amount that a quota borrows of a resource that it limits."""
        return int(self.limit[self.counts[:, resource], resource].min(initial=np.iinfo(np.int64).max))

    @property
    def strict(self) -> bool:
        """Whether no victim may go beyond a loan, in any resource that its quota limits."""
        return self.fair is not None

    def bounding(self, contended: Bool) -> Bool:
        """The resources in which victims within a loan must not exceed it: the contended ones, or all."""
        return np.ones_like(contended) if self.strict else contended

    def hold(self, taken: Int64, quota: int) -> Bool:
        """bool [S]: whether amounts taken from one quota, int64 [S, R], leave it all that it keeps."""
        return np.asarray(((taken <= self.limit[quota]) | ~self.counts[quota]).all(axis=1))

    def owners(self, rows: Int32 | Rows) -> Int64:
        """The number of each pod's quota, in the shape of `rows`; NO_QUOTA or any for empty cells."""
        found: Int64 = self._of[self._table.namespace[rows]]
        return found

    def fit_alone(self, rows: Rows, contended: Bool) -> Bool:
        """bool [M]: whether each pod holds no more of any contended resource than its quota borrows."""
        owners, resources = self.owners(rows), np.flatnonzero(contended)
        held = self._table.requests[resources][:, rows].T  # [M, K]
        beyond = (held > self.limit[owners][:, resources]) & self.counts[owners][:, resources]
        return np.asarray(~beyond.any(axis=1))

    def returned_by(self, rows: Rows) -> Bool:
        """bool [M]: whether the pods of some rows use anything that their quota borrows."""
        owners = self.owners(rows)
        borrows = ((self.left > 0) & self.counts)[owners]  # [M, R]
        uses = self._table.requests[: self.width].T[rows] > 0
        return np.asarray((borrows & uses).any(axis=1) & (owners != NO_QUOTA))

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
    stages = (WITHIN,) if loans.strict else (WITHIN, BEYOND, OTHERS)
    return (FIRST, *stages) if loans.first.any() else stages


def stages_of_largest(loans: Loans) -> tuple[int, ...]:
    """The stages in which the largest victims are taken first, where small ones do not free enough."""
    return (WITHIN,) if loans.strict else (WITHIN, OTHERS)


def loans_of(table: PodTable, demand: Demand) -> Loans | None:
    """The loans that a demand may reclaim, or None if its victims are chosen by priority alone."""
    return None if demand.borrowers is None else Loans(table, demand, demand.borrowers)


def weighs_lost_work(table: PodTable, loans: Loans | None) -> bool:
    """Whether of sets of as many victims the one that loses least work is cheapest.

    So it is in fair moves, and in a reclaim if any pod tells of a checkpoint. Otherwise the set is cheapest
    whose earliest start among its most important victims is latest, as in kube-scheduler.
    """
    return loans is not None and (loans.strict or table.checkpoints)


def contended_by(demand: Demand, deficit: Int64) -> Bool:
    """bool [R]: the contended resources: those lacking (int64 [R]), or all requested ones if none is."""
    lacking: Bool = deficit > 0
    return lacking if lacking.any() else demand.request > 0
