"""Units of eviction for a preempting group: which pods go together, and in which order they go.

A group, or a tree of groups, that is disrupted as a whole (`disruptionMode: all`) is one unit, every other
pod is one of its own.
The order is that of kube-scheduler: pods whose eviction violates no PodDisruptionBudget first, then by
priority, pods without a group before members and these before whole trees, small units before large ones,
late ones before early ones.
Members beyond the minimum of their gang go before those within it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.loans import (
    FIRST,
    OTHERS,
    WITHIN,
    Loans,
    loans_of,
    stages_of,
    weighs_lost_work,
)
from scheduler_core.model.groups.composite import is_composite_key
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.departing import can_end
from scheduler_core.state.gangs.ranks import WITHIN_MINIMUM, running_rows
from scheduler_core.state.placed.pods import PodTable

# Of equal priority, trees of groups go after their single groups and pods.
_TREE: Final = WITHIN_MINIMUM + 1


class Units(NamedTuple):
    """U units in the order of removal, as cells: `rows` of the pod table and `of`, int64 [M] each, ascending.

    `size` is U. All units before one may be evicted with it.
    """

    rows: Rows
    of: Int64
    size: int

    def some(self, chosen: Iterable[int]) -> Units:
        """The units with these numbers, in the same order."""
        numbers: Int64 = np.full(self.size, -1, dtype=np.int64)  # [U]
        kept = np.array(sorted(chosen), dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        of = numbers[self.of]
        return Units(self.rows[of >= 0], of[of >= 0], len(kept))

    def pods(self, state: ClusterState) -> list[Pod]:
        """The pods of all units."""
        return list(state.table.of(self.rows))


def units_of(
    state: ClusterState, demand: Demand, budgets: Budgets, contended: Bool, whole: Collection[str] = ()
) -> Units:
    """The units that a demand may evict, in the order of removal; `contended` bool [R] as in `Loans`.

    `whole` are the keys of further gangs that go as a whole. A unit with a member that must not be evicted is
    left out.
    """
    loans = loans_of(state.table, demand)
    ordered = _ordered(state, demand, loans, budgets, whole)
    return ordered if loans is None else _reclaimable(state.table, ordered, loans, contended)


def _ordered(
    state: ClusterState, demand: Demand, loans: Loans | None, budgets: Budgets, whole: Collection[str]
) -> Units:
    table = state.table
    rows = np.flatnonzero(demand.eligible)
    together, trees = _together(state, demand.eligible, whole)
    rows = rows[together[rows] >= 0]
    if not len(rows):
        return Units(rows, rows, 0)
    by_importance = table.by_importance(rows)
    protected: Bool = np.zeros(len(demand.eligible), dtype=np.bool_)  # [rows]
    protected[by_importance] = budgets.beyond(by_importance)
    first, of = np.unique(together[rows], return_index=True, return_inverse=True)[1:]
    units = len(first)
    size = np.bincount(of, minlength=units)
    hurt = np.bincount(of, weights=protected[rows], minlength=units) > 0
    if weighs_lost_work(table, loans):
        start = np.bincount(of, weights=table.since[rows], minlength=units)
    else:
        start = np.full(units, np.inf)
        np.minimum.at(start, of, table.since[rows])
    head = rows[first]
    rank = np.where(trees[head], _TREE, table.rank[head])
    keys = (head, -start, size, rank, table.priority[head], hurt)
    place = np.empty(units, dtype=np.int64)
    place[np.lexsort(keys)] = np.arange(units)
    cells = np.argsort(place[of], kind="stable")
    return Units(rows[cells], place[of][cells], units)


def _together(state: ClusterState, eligible: Bool, whole: Collection[str]) -> tuple[Int64, Bool]:
    """Of each row of the pod table: its unit, int64 [rows], and whether that is a tree, bool [rows].

    A unit is its lowest row, -1 for none.
    """
    together: Int64 = np.arange(len(eligible), dtype=np.int64)
    trees: Bool = np.zeros(len(eligible), dtype=np.bool_)
    units: dict[str, list[int]] = {}
    for key, gang in state.gangs.gangs.items():
        group = state.gangs.forest.taken_with(key) or (gang if key in whole else None)
        if group is not None:
            there = (uid for uid in state.gangs.members(key) if can_end(state, uid))
            rows = running_rows(there, state.placed, state.table)
            units.setdefault(group.key, []).extend(rows)
    for key, rows in units.items():
        if rows:
            together[rows] = min(rows) if eligible[rows].all() else -1
            trees[rows] = is_composite_key(key)
    return together, trees


def _reclaimable(table: PodTable, units: Units, loans: Loans, contended: Bool) -> Units:
    """Units by the stages of a reclaim, each while its quota borrows something that the unit uses."""
    starts = np.searchsorted(units.of, np.arange(units.size + 1))
    vectors = _sums(table.requests[: loans.width].T[units.rows], units)
    owners = loans.owners(units.rows[starts[:-1]])
    found: list[Rows] = []
    left, free = loans.left.copy(), np.ones(units.size, dtype=np.bool_)
    for stage in stages_of(loans):
        going: list[Rows] = []
        for quota in np.flatnonzero(loans.first) if stage == FIRST else np.unique(owners[free]):
            own = np.flatnonzero(free & (owners == quota))
            taken = _taken(
                vectors[own],
                left[quota],
                loans.counts[quota],
                contended[: loans.width],
                loans.bounding(contended[: loans.width]),
                stage,
            )
            going.append(own[taken])
            left[quota] -= vectors[own[taken]].sum(axis=0)
        # Quotas do not limit each other: within a stage the order of all units counts.
        found.append(np.sort(np.concatenate(going)) if going else units.of[:0])
        free[found[-1]] = False
    order = np.concatenate(found)
    place: Int64 = np.full(units.size, units.size, dtype=np.int64)  # [U]
    place[order] = np.arange(len(order))
    cells = np.argsort(place[units.of], kind="stable")[: int(np.isin(units.of, order).sum())]
    return Units(units.rows[cells], place[units.of][cells], len(order))


def _taken(vectors: Int64, left: Int64, counts: Bool, contended: Bool, bound: Bool, stage: int) -> Rows:
    """The units of one quota (int64 [U, R], in order) that a stage takes, each with those before it gone.

    `left` int64 [R] is what the quota uses above its min; `counts` bool [R] are the resources it limits,
    `bound` bool [R] those of them in which no unit may exceed what is left of the loan, in early stages.
    """

    def may_go(before: Int64, own: Int64) -> Bool:
        over = (before > 0) & (own > 0) & counts & (contended if stage != OTHERS else True)
        fits = ~((own > np.maximum(before, 0)) & counts & bound).any(axis=1)
        return np.asarray(over.any(axis=1) & fits if stage <= WITHIN else over.any(axis=1))

    chosen: list[Rows] = []
    rest = np.arange(len(vectors))
    while len(rest):
        # What may not go now may not go later: the quota only uses less then.
        rest = rest[may_go(np.broadcast_to(left, (len(rest), len(left))), vectors[rest])]
        gone = np.cumsum(vectors[rest], axis=0)
        refused = np.flatnonzero(~may_go(left - gone + vectors[rest], vectors[rest]))
        end = int(refused[0]) if len(refused) else len(rest)
        chosen.append(rest[:end])
        left = left - (gone[end - 1] if end else 0)
        rest = rest[end:]
    return np.concatenate(chosen) if chosen else rest


def _sums(vectors: Int64, units: Units) -> Int64:
    """int64 [U, R]: the sum of each unit."""
    out: Int64 = np.zeros((units.size, vectors.shape[1]), dtype=np.int64)
    np.add.at(out, units.of, vectors)
    return out
