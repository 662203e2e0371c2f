"""Victims on several nodes for one pod: room on one node, quota from anywhere (reference, rule 15).

What a quota lacks may run on any node. So the node gets the victims that its own resources need, and the rest
of the quota's need is taken from the least important candidates of the whole cluster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.demand import Demand, Lenders, Rows
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]


def victims_anywhere(table: PodTable, demand: Demand, local: Rows, need: Int64) -> Rows | None:
    """Rows to evict besides `local` so that `need` (int64 [R], what local victims leave over) comes free.

    Least important first; None if even all candidates together do not free enough. Not yet minimal: the
    caller gives back what turns out not to be needed.
    """
    lacking = need > 0  # [R]
    if not lacking.any():
        return np.zeros(0, dtype=np.int64)
    rows = demand.candidates[~np.isin(demand.candidates, local)]
    useful = (table.requests[: len(need)][lacking][:, rows] > 0).any(axis=0)
    ordered = rows[useful]
    if demand.lenders is not None:
        ordered = _reclaimable(table, demand.lenders, local, ordered, lacking)
    freed = np.cumsum(table.requests[: len(need)][:, ordered], axis=1)  # [R, K]
    enough = (freed >= need[:, None]).all(axis=0)  # [K]
    if not enough.any():
        return None
    return ordered[: int(np.argmax(enough)) + 1]


def _reclaimable(table: PodTable, lenders: Lenders, local: Rows, ordered: Rows, lacking: Bool) -> Rows:
    """Candidates in the order of the three passes, those whose quota is over min when their turn comes."""
    width = lenders.used.shape[1]
    quota = lenders.of[table.namespace[ordered]]  # [K]
    left = lenders.used.copy()  # [Q, R]
    np.subtract.at(left, lenders.of[table.namespace[local]], table.requests[:width].T[local])
    loan = left - lenders.min  # [Q, R]
    vectors = table.requests[:width].T[ordered]  # [K, R]
    contended = lenders.counts & lacking
    before, after = _running(quota, vectors)
    borrowing = ((loan[quota] > 0) & contended[quota]).any(axis=1)
    within = borrowing & (~contended[quota] | (after <= np.maximum(loan[quota], 0))).all(axis=1)
    sequence = np.concatenate(
        [np.flatnonzero(within), np.flatnonzero(borrowing & ~within), np.flatnonzero(~borrowing)]
    )
    # The over-min test again, now in the order in which the candidates would really go.
    before, _ = _running(quota[sequence], vectors[sequence])
    over = ((loan[quota[sequence]] - before > 0) & lenders.counts[quota[sequence]]).any(axis=1)
    return ordered[sequence[over]]


def _running(quota: Rows, vectors: Int64) -> tuple[Int64, Int64]:
    """(taken before, taken after) each candidate from its own quota, int64 [K, R], in the given order."""
    grouped = np.argsort(quota, kind="stable")
    sums = np.cumsum(vectors[grouped], axis=0)
    first = np.flatnonzero(np.r_[True, np.diff(quota[grouped]) != 0]) if len(quota) else np.zeros(0, int)
    sizes = np.diff(np.r_[first, len(quota)])
    base = np.repeat(sums[first] - vectors[grouped][first], sizes, axis=0) if len(quota) else sums
    after: Int64 = np.empty_like(vectors)
    after[grouped] = sums - base
    return after - vectors, after
