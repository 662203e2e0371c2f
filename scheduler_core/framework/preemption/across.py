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


def victims_anywhere(
    table: PodTable, demand: Demand, candidates: Rows, local: Rows, need: Int64
) -> Rows | None:
    """Rows to evict besides `local` so that `need` (int64 [R], what local victims leave over) comes free.

    `candidates` are all rows that may go, least important first. None if even all together do not free
    enough. Not yet minimal: the caller gives back what turns out not to be needed.
    """
    lacking = need > 0  # [R]
    if not lacking.any():
        return np.zeros(0, dtype=np.int64)
    rows = candidates[~np.isin(candidates, local)]
    useful = (table.requests[: len(need)][lacking][:, rows] > 0).any(axis=0)
    ordered = rows[useful]
    if demand.lenders is None:
        return _prefix(table, ordered, need)
    found = _prefix(table, _reclaimable(table, demand.lenders, local, ordered, lacking), need)
    if found is not None:
        return found
    # The least important may have ended a loan that a larger victim would have needed: largest first.
    size = table.requests[: len(need)][lacking][:, ordered].sum(axis=0)
    largest = ordered[np.argsort(-size, kind="stable")]
    return _prefix(table, _while_over_min(table, demand.lenders, local, largest), need)


def _prefix(table: PodTable, ordered: Rows, need: Int64) -> Rows | None:
    """The first candidates that together free what is needed, or None."""
    freed = np.cumsum(table.requests[: len(need)][:, ordered], axis=1)  # [R, K]
    enough = (freed >= need[:, None]).all(axis=0)  # [K]
    if not enough.any():
        return None
    return ordered[: int(np.argmax(enough)) + 1]


def _while_over_min(table: PodTable, lenders: Lenders, local: Rows, ordered: Rows) -> Rows:
    """Candidates whose quota is over min when their turn comes, in the given order."""
    width = lenders.used.shape[1]
    left = lenders.used.copy()  # [Q, R]
    np.subtract.at(left, lenders.of[table.namespace[local]], table.requests[:width].T[local])
    quota = lenders.of[table.namespace[ordered]]  # [K]
    before, _ = _running(quota, table.requests[:width].T[ordered])
    loan = left - lenders.min  # [Q, R]
    over = ((loan[quota] - before > 0) & lenders.counts[quota]).any(axis=1)
    return ordered[over]


def _reclaimable(table: PodTable, lenders: Lenders, local: Rows, ordered: Rows, lacking: Bool) -> Rows:
    """Candidates in the order of the three passes, those whose quota is over min when their turn comes."""
    width = lenders.used.shape[1]
    quota = lenders.of[table.namespace[ordered]]  # [K]
    left = lenders.used.copy()  # [Q, R]
    np.subtract.at(left, lenders.of[table.namespace[local]], table.requests[:width].T[local])
    loan = left - lenders.min  # [Q, R]
    vectors = table.requests[:width].T[ordered]  # [K, R]
    contended = lenders.counts & lacking
    _, after = _running(quota, vectors)
    borrowing = ((loan[quota] > 0) & contended[quota]).any(axis=1)
    within = borrowing & (~contended[quota] | (after <= np.maximum(loan[quota], 0))).all(axis=1)
    sequence = np.concatenate(
        [np.flatnonzero(within), np.flatnonzero(borrowing & ~within), np.flatnonzero(~borrowing)]
    )
    # The over-min test again, now in the order in which the candidates would really go.
    return _while_over_min(table, lenders, local, ordered[sequence])


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
