"""Reclaiming the min of a quota for a group on the topology (capacity reference, rules 7 and 10).

A group that stays within the min of its quota as a whole may evict what other quotas borrow, whatever their
priority: pods outside groups one by one, gangs as a whole where they would be torn. Of all that may go, what
the placement and the quota can do without stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from scheduler_core.arrays.sparing import spared
from scheduler_core.engine.gang_preemption import blocks_of
from scheduler_core.engine.group_placement import Question
from scheduler_core.engine.group_slots import capacity
from scheduler_core.framework.preemption.demand import Demand, Lenders, reclaim_demand
from scheduler_core.framework.preemption.turns import in_turn
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.pod import Pod
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.placer import can_place


def borrowers_to_evict(
    state: ClusterState, question: Question, quota: ElasticQuota, leaving: frozenset[str]
) -> list[Pod] | None:
    """Pods of other quotas whose end lets the group be placed within its min; None if no set does.

    `leaving` are pods (uids) that are on their way out anyhow.
    """
    first = question.members[0][1]
    asked: dict[str, int] = {}
    for _, pod in question.members:
        shift(asked, charged(pod.requests))
    demand = reclaim_demand(state, first, quota, asked)
    if demand is None or demand.lenders is None:
        return None

    def enough(victims: Sequence[Pod]) -> bool:
        if not _frees(state, demand, victims):
            return False
        gone = leaving.union(pod.uid for pod in victims)
        room = capacity(state, question.slots, gone)
        return can_place(question.tree, room, question.size, question.rules, question.fixed)

    turns = ((turn, turn.lenders) for turn in in_turn(state.table, demand))
    passes = (_passes(state, turn, lenders) for turn, lenders in turns if lenders is not None)
    for candidates in chain.from_iterable(passes):
        if not enough(candidates):
            continue
        blocks = blocks_of(state, candidates)

        def enough_of(chosen: frozenset[int], blocks: Sequence[Sequence[Pod]] = blocks) -> bool:
            return enough([pod for index in chosen for pod in blocks[index]])

        kept = spared(range(len(blocks)), enough_of)
        return [pod for index in sorted(kept) for pod in blocks[index]]
    return None


def _frees(state: ClusterState, demand: Demand, victims: Sequence[Pod]) -> bool:
    """Whether victims free what the group's quota lacks."""
    ending: dict[str, dict[str, int]] = {}
    for pod in victims:
        shift(ending.setdefault(pod.namespace, {}), charged(pod.requests))
    freed: dict[str, int] = {}
    for namespace, amounts in ending.items():
        shift(freed, state.ledger.frees(namespace, amounts, after_leaving=True, guaranteed=True))
    lacking = np.flatnonzero(demand.need > 0)
    return all(freed.get(state.index.names[row], 0) >= demand.need[row] for row in lacking)


def _passes(state: ClusterState, demand: Demand, lenders: Lenders) -> list[list[Pod]]:
    """Who may go: as far as quotas borrow what is asked for; then whoever is over min at its turn."""
    table = state.table
    rows = table.removal_order(demand.eligible)
    width = lenders.used.shape[1]
    asked = demand.request[:width] > 0  # [R]
    found: list[list[Pod]] = []
    for within_loan in (True, False):
        left = lenders.used - lenders.min  # [Q, R]
        chosen: list[int] = []
        for row in rows.tolist():
            number = int(lenders.of[table.namespace[row]])
            vector = table.requests[:width, row]
            counts = lenders.counts[number] & asked if within_loan else lenders.counts[number]
            over = bool((left[number] > 0)[counts].any())
            if over and not (within_loan and (vector > left[number])[counts].any()):
                left[number] -= vector
                chosen.append(row)
        found.append(list(table.of(np.array(chosen, dtype=np.int64))))
    return found
