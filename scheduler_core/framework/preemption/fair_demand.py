"""The demand of a fair move: work that would borrow takes from quotas that borrow more.

The rules are in `scheduler_core.quota.fair_moves`. Here they become arrays: what each quota keeps stands in
place of its min, and victims are taken only within what is above that (`loans.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from scheduler_core.arrays.index import MOST_COUNTED
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.preemption.demand import (
    Borrowers,
    Demand,
    available,
    borrowers_with,
    demands_in_order,
    of_borrowers,
    weightless,
)
from scheduler_core.framework.preemption.nominated_sums import nominated_requests
from scheduler_core.model.duration import format_duration
from scheduler_core.model.names import MIN_RUNTIME_ANNOTATION, RECLAIM_MIN_RUNTIME_ANNOTATION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.model.timestamps import format_time
from scheduler_core.quota.fair_moves import FairMove, fair_move, floors, is_fair, no_fair_move
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.placed.calm import calm_of
from scheduler_core.state.placed.pods import PodTable


class FairDemand(msgspec.Struct, frozen=True):
    """A fair move as a demand, and the quotas that may give something."""

    move: FairMove
    demand: Demand
    borrowers: Borrowers

    def turns(self, table: PodTable) -> Iterator[Demand]:
        """Demands to try in order until one succeeds: first with victims of quotas of weight 0 only."""
        lose = weightless(self.borrowers)
        if lose.any() and not lose.all():
            owners = np.append(self.borrowers.of, -1)[table.namespace[: len(self.demand.eligible)]]
            theirs: Bool = (owners >= 0) & np.append(lose, False)[owners]
            fewer = msgspec.structs.replace(self.demand, eligible=self.demand.eligible & theirs)
            yield from demands_in_order(table, fewer)
        yield from demands_in_order(table, self.demand)


def fair_move_of(state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList) -> FairMove | None:
    """The fair move that work of this charge needs, or None; `pod` stands for the work.

    Nodes that are merely kept for a gang make nothing short: they are given up again.
    """
    if not state.ledger.borrowing.fair_moves:
        return None
    own, total = nominated_requests(state, pod, without_kept=True)
    return fair_move(state.ledger, quota, asked, own, total)


def fair_demand(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, now: float
) -> FairDemand | None:
    """The demand of the fair move that work of this charge needs, or None if it needs none.

    `asked` is what is charged to the quota: the requests of the pod or of its whole group.
    """
    move = fair_move_of(state, pod, quota, asked)
    if move is None:
        return None
    ledger, table, index = state.ledger, state.table, state.index
    table.cover(len(index))
    found = []
    for other in ledger.quotas():
        keeps = floors(ledger, move, other) if other.namespace != quota.namespace else None
        if keeps is not None:
            found.append((other, keeps))
    borrowers = borrowers_with(state, found, move)
    need: Int64 = np.zeros(len(index), dtype=np.int64)  # [R]
    for name, amount in move.short.items():
        row = index.row(name)
        if row is not None:
            need[row] = min(MOST_COUNTED, amount)
    eligible = available(state, pod) & of_borrowers(table, borrowers)
    eligible &= _within_loans(table, borrowers, need)
    calm = calm_of(table, eligible, borrowers.of, [other.sharing.min_runtime for other, _ in found], now)
    demand = Demand(pod, state.vector(pod), need, eligible & ~calm.young, quota, borrowers, calm)
    return FairDemand(move, demand, borrowers)


def why_no_fair_move(state: ClusterState, found: FairDemand) -> str:
    """Why a fair move has no victims: the shares, and from when further pods may be taken."""
    text, later = no_fair_move(state.ledger, found.move), comes_of_age(found.demand)
    return f"{text}; {later}" if later else text


def comes_of_age(demand: Demand) -> str:
    """From when the first of the pods may be taken that run for too short a time; empty if there is none."""
    borrowers, calm = demand.borrowers, demand.calm
    if borrowers is None or calm is None or calm.owner < 0:
        return ""
    other = borrowers.quotas[calm.owner]
    fair, sharing = borrowers.fair is not None, other.sharing
    seconds = sharing.min_runtime if fair else sharing.reclaim_min_runtime
    name = MIN_RUNTIME_ANNOTATION if fair else RECLAIM_MIN_RUNTIME_ANNOTATION
    return (
        f"pods of ElasticQuota {other.key} may be taken from {format_time(math.ceil(calm.until))} "
        f"({name} {format_duration(seconds)})"
    )


def _within_loans(table: PodTable, borrowers: Borrowers, need: Int64) -> Bool:
    """bool [rows]: pods that take nothing beyond the loan of their quota, and free what is needed."""
    size = table.size
    left = borrowers.used - borrowers.min  # [Q, R]
    owners = np.append(borrowers.of, -1)[table.namespace[:size]]
    frees: Bool = np.zeros(size, dtype=np.bool_)
    fits: Bool = np.ones(size, dtype=np.bool_)
    if not len(left):
        return frees
    for row in np.flatnonzero(borrowers.counts.any(axis=0)).tolist():
        held, own = table.requests[row, :size], left[owners, row]
        fits &= (held <= own) | ~borrowers.counts[owners, row]
        if need[row] > 0:
            frees |= (held > 0) & (own > 0)
    return frees & fits


def is_fair_set(state: ClusterState, move: FairMove | None, victims: Iterable[Pod]) -> bool:
    """Whether victims are a fair set; True if they are not those of a fair move."""
    if move is None:
        return True
    taken: dict[str, dict[str, int]] = {}
    for pod in victims:
        shift(taken.setdefault(pod.namespace, {}), charged(pod.requests))
    return is_fair(state.ledger, move, taken)
