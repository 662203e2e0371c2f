"""Victims for a gang as a whole: all who may go are taken away, and whoever can be spared is given back.

Members that evict one after the other each take the least that they need for themselves; who comes after them
and may evict nobody finds no room then, though other victims would have made room for all. Only few pods are
looked at in this way: every look places the whole gang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.sparing import spared
from scheduler_core.engine.gang_capacity import CAPACITY, Members, least
from scheduler_core.framework.preemption.budgets import Budgets, counted
from scheduler_core.framework.preemption.choice import Choice
from scheduler_core.framework.preemption.demand import Demand, Rows, ordinary_demand, quota_demand
from scheduler_core.framework.preemption.gangs import torn_gangs
from scheduler_core.framework.preemption.loans import contended_by, loans_of
from scheduler_core.framework.preemption.proof import Found
from scheduler_core.model.pod import Pod
from scheduler_core.quota.ledger import charged
from scheduler_core.state.cluster import ClusterState

# With more who may go nobody is looked for in this way: to find out who is spared takes two looks for each.
MOST_CANDIDATES: Final = 28


def victims_at_once(
    state: ClusterState, members: Members, need: int, enough: Callable[[Sequence[Pod]], bool]
) -> list[Pod] | None:
    """Lawful victims, enough and none too many; None if there are none, or if too many pods may go."""
    if not all(profile.across_nodes for profile, _ in members):
        return None
    demand = _demand(state, members, need)
    rows = np.flatnonzero(demand.eligible)
    if not 0 < len(rows) <= MOST_CANDIDATES or not enough(list(state.table.of(rows))):
        return None
    budgets = Budgets(state.table, counted(state))
    contended = contended_by(demand, demand.need)
    choice = Choice(state, loans_of(state.table, demand), budgets, lambda _: contended)
    order = choice.give_back_all(rows, contended)
    found = _without_spared(state, demand, order, enough)
    if found is not None and not choice.is_lawful(found):
        found = _without_spared(state, demand, choice.overdrawn_first(order, found), enough)
    return found.victims if found is not None and choice.is_lawful(found) else None


def _demand(state: ClusterState, members: Members, need: int) -> Demand:
    """Who may go: those whom the most important member may evict, or what the quota reclaims for all.

    By priority nobody goes who is more important than any member: pods like it that wait would have a better
    right to its room than the member that gets it.
    """
    profile, top = max(members, key=lambda member: member[1].priority)
    quota = state.ledger.quota_of(top.namespace) if CAPACITY in profile.enabled else None
    if quota is None:
        demand = ordinary_demand(state, top, spare_quotas=CAPACITY in profile.enabled)
    else:
        demand = quota_demand(state, top, quota, least(need, (charged(pod.requests) for _, pod in members)))
    if demand.lenders is not None:
        return demand
    lowest = min(pod.priority for _, pod in members)
    eligible = demand.eligible & (state.table.priority[: len(demand.eligible)] <= lowest)
    return msgspec.structs.replace(demand, eligible=eligible)


def _without_spared(
    state: ClusterState, demand: Demand, order: Rows, enough: Callable[[Sequence[Pod]], bool]
) -> Found | None:
    """Who is left when all that can be spared were given back, in order; gangs that are torn go as a whole.

    None where a gang would have to go of which somebody must not.
    """
    victims = _kept([[pod] for pod in state.table.of(order)], enough)
    torn = torn_gangs(state, victims)
    members = {pod.uid: pod for gang in torn for pod in gang.members}
    if not all(demand.eligible[state.placed[uid].row] for uid in members):
        return None
    if torn:
        # What the whole gang frees may spare others.
        alone = [[pod] for pod in victims if pod.uid not in members]
        victims = _kept([*alone, *(list(gang.members) for gang in torn)], enough)
    return Found(-1, victims, torn_gangs(state, victims))


def _kept(blocks: Sequence[list[Pod]], enough: Callable[[Sequence[Pod]], bool]) -> list[Pod]:
    def are_enough(chosen: frozenset[int]) -> bool:
        return enough([pod for index in chosen for pod in blocks[index]])

    return [pod for index in sorted(spared(range(len(blocks)), are_enough)) for pod in blocks[index]]
