"""Gangs that a reclaim takes as a whole: together they count as one victim (docs/quota.md#preemption).

Members that use nothing of what their quota borrows, or no longer once others of their gang are gone, are no
victims one by one. A gang that falls below its minimum goes together, and may if any member uses what is
borrowed.
"""

from __future__ import annotations

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.framework.preemption.dry_run import disrupted_gangs
from scheduler_core.framework.preemption.loans import Loans
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.ranks import NO_GANG
from scheduler_core.state.placed.pods import PodTable


def any_members(table: PodTable, eligible: Bool) -> bool:
    """Whether any of the candidates (bool [rows]) is a member of a gang."""
    return bool((eligible & (table.rank[: len(eligible)] > NO_GANG)).any())


def nodes_of_members(table: PodTable, eligible: Bool, lacking: Int64) -> Rows:
    """Nodes on which a member of a gang holds some of what is lacking there (int64 [R, N]).

    Only those whose candidates (bool [rows]) all together hold all of it.
    """
    rows = np.flatnonzero(eligible)
    slots, held = table.slot[rows], table.requests[: len(lacking)][:, rows]  # [M], [R, M]
    freed: Int64 = np.zeros_like(lacking)
    for resource in np.flatnonzero(lacking.any(axis=1)).tolist():
        np.add.at(freed[resource], slots, held[resource])
    enough: Bool = np.asarray((freed >= lacking).all(axis=0))  # [N]
    useful = ((held > 0) & (lacking[:, slots] > 0)).any(axis=0) & (table.rank[rows] > NO_GANG)
    out: Rows = np.unique(slots[useful & enough[slots]]).astype(np.int64)
    return out


def that_may_go(state: ClusterState, loans: Loans, rows: Rows) -> Rows:
    """The candidates that use something of what their quota borrows, or whose gang does.

    A gang counts if it would have to go as a whole for all of the candidates.
    """
    returned = loans.returned_by(rows)
    together: list[int] = []
    for gang in disrupted_gangs(state, state.table.of(rows)) if not returned.all() else ():
        members = np.array([state.placed[pod.uid].row for pod in gang.members], dtype=np.int64)
        if loans.returned_by(members).any():
            together += members.tolist()
    return rows[returned | np.isin(rows, together)]
