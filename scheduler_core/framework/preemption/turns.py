"""Whose pods go first: those of quotas that use more than their max (docs/quota.md, "What passed by").

What a quota uses above its max counts against nobody else. So it must be gone before its pods free anything
of the sum over all quotas, but for what pods without a node use, which nobody can evict.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.demand import Demand, Lenders
from scheduler_core.state.pods import PodTable

Bool = NDArray[np.bool_]


def gives_first(lenders: Lenders, request: Int64) -> Bool:
    """bool [Q]: quotas that use more than their max of something that is requested (int64 [R])."""
    if lenders.excess is None:
        return np.zeros(len(lenders.quotas), dtype=np.bool_)
    asked = request[: lenders.excess.shape[1]] > 0
    return np.asarray((lenders.excess[:, asked] > 0).any(axis=1))


def in_turn(table: PodTable, demand: Demand) -> Iterator[Demand]:
    """What to look for, one after the other, until something is found.

    Pods of quotas above their max alone; all who may go, of whom these go first; the others alone. Just the
    demand itself where no quota is above its max.
    """
    lenders = demand.lenders
    first = gives_first(lenders, demand.request) if lenders is not None else None
    if lenders is None or lenders.hidden is None or first is None or not first.any():
        yield demand
        return
    owners = np.append(lenders.of, -1)[table.namespace[: len(demand.eligible)]]
    theirs: Bool = (owners >= 0) & np.append(first, False)[owners]
    hidden, need = lenders.hidden, demand.need.copy()
    short = need[: len(hidden)] > 0
    need[: len(hidden)][short] += hidden[short]
    yield msgspec.structs.replace(demand, need=need, eligible=demand.eligible & theirs)
    yield msgspec.structs.replace(demand, need=need)
    yield msgspec.structs.replace(demand, eligible=demand.eligible & ~theirs)
