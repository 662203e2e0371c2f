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
from scheduler_core.framework.nominations.covered_nominations import covered_behind
from scheduler_core.framework.nominations.nominated_sums import (
    nominated_by_quota,
    nominated_requests,
    own_nominated,
)
from scheduler_core.framework.preemption.demand import (
    Borrowers,
    Demand,
    borrowers_with,
    demands_in_order,
    of_borrowers,
    reclaimable,
    requested,
    weightless,
)
from scheduler_core.framework.preemption.group_need import with_kept_back
from scheduler_core.model.duration import format_duration
from scheduler_core.model.names import MIN_RUNTIME_ANNOTATION, RECLAIM_MIN_RUNTIME_ANNOTATION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.model.timestamps import format_time
from scheduler_core.quota.fair_moves import FairMove, fair_move, floors, is_fair, no_fair_move
from scheduler_core.quota.fair_shares import borrows, scale_of
from scheduler_core.quota.fair_sides import meeting
from scheduler_core.quota.ledger import QuotaLedger, charged, shift
from scheduler_core.quota.policy import lendable, may_reclaim
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.placed.calm import calm_of
from scheduler_core.state.placed.pods import PodTable


class FairDemand(msgspec.Struct, frozen=True):
    """A fair move as demands on the quotas that may give something.

    There is one demand without groups of quotas. In a tree there is one for each side that takes: the quotas
    of one demand all give to the same side.
    """

    move: FairMove
    demands: tuple[Demand, ...]

    @property
    def demand(self) -> Demand:
        """The demand whose pods may be taken first, if some have not run for long enough."""
        return min(self.demands, key=lambda demand: demand.until)

    def turns(self, table: PodTable) -> Iterator[Demand]:
        """Demands to try in order until one succeeds: first with victims of quotas of weight 0 only."""
        for demand in self.demands:
            borrowers = demand.borrowers
            lose = weightless(borrowers) if borrowers is not None else np.zeros(0, dtype=np.bool_)
            if borrowers is not None and lose.any() and not lose.all():
                owners = np.append(borrowers.of, -1)[table.namespace[: len(demand.eligible)]]
                theirs: Bool = (owners >= 0) & np.append(lose, False)[owners]
                fewer = msgspec.structs.replace(demand, eligible=demand.eligible & theirs)
                yield from demands_in_order(table, fewer)
            yield from demands_in_order(table, demand)


def fair_move_of(state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList) -> FairMove | None:
    """The fair move that work of this charge needs, or None; `pod` stands for the work.

    Nodes that are merely kept for a gang make nothing short, as they are given up again. Those of the own
    quota count in its share.
    """
    if not state.ledger.borrowing.fair_moves:
        return None
    _, total = nominated_requests(state, pod, without_kept=True)
    total = with_kept_back(state, pod, quota, total, asked)
    by_quota = nominated_by_quota(state, pod)
    own = own_nominated(state, pod)
    if len(state.nominations) and not may_reclaim(state.ledger, quota, asked, own):
        # Work that would borrow starts beside the claims of its quota, whatever their order.
        shift(own, covered_behind(state, pod, frozenset()))
    return fair_move(state.ledger, quota, asked, own, total, by_quota)


def fair_demand(
    state: ClusterState, pod: Pod, quota: ElasticQuota, asked: ResourceList, now: float
) -> FairDemand | None:
    """The demand of the fair move that work of this charge needs, or None if it needs none.

    `asked` is what is charged to the quota: the requests of the pod or of its whole group.
    """
    move = fair_move_of(state, pod, quota, asked)
    if move is None:
        return None
    state.table.cover(len(state.index))
    found = _givers(state.ledger, move)
    return FairDemand(move, tuple(_demand(state, pod, move, givers, now) for givers in found))


_Givers = list[tuple[ElasticQuota, dict[str, int]]]


def _givers(ledger: QuotaLedger, move: FairMove) -> list[_Givers]:
    """The quotas that may give, each with what it keeps; those that give to one side together.

    What a group may give is divided among its quotas, the highest share first.
    """
    own = move.quota
    others = [quota for quota in ledger.quotas() if quota.namespace != own.namespace]
    if not ledger.tree:
        kept = ((other, floors(ledger, move, other)) for other in others)
        return [[(other, keeps) for other, keeps in kept if keeps is not None]]
    scale = scale_of(ledger)
    others.sort(key=lambda quota: quota.namespace)
    others.sort(key=lambda quota: scale.share(borrows(ledger, quota), quota.sharing.weight), reverse=True)
    spent: dict[str, dict[str, int]] = {}
    found: dict[int, _Givers] = {}
    for other in others:
        keeps = floors(ledger, move, other, spent)
        if keeps is not None:
            at = meeting(ledger, own, other)
            used = lendable(ledger, other)
            gives = {name: used.get(name, 0) - least for name, least in keeps.items()}
            for group in at.giving:
                shift(spent.setdefault(group.name, {}), gives)
            found.setdefault(at.level, []).append((other, keeps))
    return [found[level] for level in sorted(found)] or [[]]


def _demand(state: ClusterState, pod: Pod, move: FairMove, found: _Givers, now: float) -> Demand:
    """The demand of a fair move on quotas that give to one side."""
    table, index, quota = state.table, state.index, move.quota
    borrowers = borrowers_with(state, quota, found, move)
    need: Int64 = np.zeros(len(index), dtype=np.int64)  # [R]
    for name, amount in move.short.items():
        row = index.row(name)
        if row is not None:
            need[row] = min(MOST_COUNTED, amount)
    eligible = reclaimable(state, pod) & of_borrowers(table, borrowers)
    eligible &= _within_loans(table, borrowers, need)
    running = eligible & ~table.late[: len(eligible)]
    calm = calm_of(table, running, borrowers.of, [other.sharing.min_runtime for other, _ in found], now)
    request = requested(state, pod, move.asked)
    return Demand(pod, request, need, eligible & ~calm.young, quota, borrowers, calm)


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
        shift(taken.setdefault(pod.namespace, {}), charged(state.charge_of(pod)))
    return is_fair(state.ledger, move, taken)
