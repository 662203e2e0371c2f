"""Nodes come in the order of what their victims cost, whether few of them were looked at or all."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler_core.framework.preemption import cost_bounds
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.cost_bounds import FLAWS, Bounds, CandidateMatrix, Cost
from scheduler_core.framework.preemption.demand import Demand, ordinary_demand, quota_demand
from scheduler_core.framework.preemption.lanes import CandidateLanes
from scheduler_core.framework.preemption.loans import loans_of
from scheduler_core.framework.preemption.node_order import CheapestFirst
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_budget, make_node, make_pod, make_quota
from tests.support.every import every_seed

NODES = 12


def full_cluster(rng: random.Random) -> ClusterState:
    """Nodes with up to eight pods of two quotas and none, which differ in size, priority and start."""
    state = ClusterState()
    state.put_quota(make_quota("a/q").min(cpu=40).obj())
    state.put_quota(make_quota("b/q").min(cpu=rng.randint(0, 20), memory=rng.randint(0, 30)).obj())
    state.put_quota(make_quota("c/q").min(cpu=rng.randint(0, 20)).obj())
    for n in range(NODES):
        state.put_node(make_node(f"n{rng.randint(10, 99)}-{n}").allocatable(cpu=12, memory=30, pods=20).obj())
    for slot, name in enumerate(state.nodes.names):
        for i in range(rng.randint(0, 8)):
            pod = make_pod(f"{rng.choice('bcf')}/p{slot}-{i}").priority(rng.choice([-3, 0, 0, 0, 7]))
            pod.requests(cpu=rng.randint(0, 3), memory=rng.randint(0, 5)).labels(app=rng.choice("xy"))
            state.put_pod(pod.on(name).started(rng.choice([10, 20, 30])).obj())
    return state


def everything_at_once(
    state: ClusterState,
    field: CandidateMatrix,
    demand: Demand,
    deficit: np.ndarray,
    budgets: list[PodDisruptionBudget],
) -> list[tuple[Cost, int, list[int]]]:
    """(cost, slot, rows) of all nodes, by deciding each of them exactly."""
    known = Budgets(state.table, budgets)
    lanes = CandidateLanes(field, loans_of(state.table, demand), np.arange(NODES), deficit, known)
    lanes.remove()
    lanes.reprieve()
    costs = lanes.costs(state.nodes.name_ranks())
    enough = [lane for lane in range(NODES) if lanes.satisfied[lane]]
    return sorted((costs[lane], int(lanes.slots[lane]), lanes.victims(lane).tolist()) for lane in enough)


@pytest.mark.parametrize("block", [1, 64])
@every_seed(range(60))
def test_cheapest_first_is_the_order_of_all(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_bounds, "FIRST_BLOCK", block)
    rng = random.Random(seed)
    state = full_cluster(rng)
    reclaims = rng.random() < 0.5
    pod = make_pod("a/p" if reclaims else "f/p").requests(cpu=rng.randint(1, 6), memory=rng.randint(0, 8))
    asking = pod.priority(5).obj()
    quota = state.ledger.quota_of("a")
    assert quota is not None
    demand = (
        quota_demand(state, asking, quota) if reclaims else ordinary_demand(state, asking, spare_quotas=True)
    )
    budgets = [make_budget(f"{name}/x").selects(app="x").allows(rng.randint(0, 1)).obj() for name in "bcf"]
    field = CandidateMatrix(state.table, demand, np.arange(NODES), NODES)
    deficit = np.repeat(state.vector(asking)[:, None], NODES, axis=1)
    deficit = np.maximum(deficit - rng.randint(0, 2), 0)
    expected = everything_at_once(state, field, demand, deficit, budgets)
    offers = CheapestFirst(field, demand, deficit, Budgets(state.table, budgets), state.nodes.name_ranks())
    found = [(offer.cost, offer.slot, offer.rows.tolist()) for offer in offers]
    flawless = [item for item in expected if not any(item[0][:FLAWS])]
    assert found[: len(flawless)] == flawless
    assert [item[0] for item in found] == sorted(item[0] for item in found)
    by_slot = {slot: cost for cost, slot, _ in found}
    assert all(by_slot[slot] <= cost for cost, slot, _ in expected)
    if not reclaims:
        assert len(found) == len(expected)


@pytest.mark.parametrize("reclaims", [False, True])
@every_seed(range(40))
def test_no_node_costs_less_than_its_bound(seed: int, reclaims: bool) -> None:
    rng = random.Random(1000 + seed)
    state = full_cluster(rng)
    pod = make_pod("a/p" if reclaims else "f/p").requests(cpu=rng.randint(1, 6), memory=rng.randint(0, 8))
    asking = pod.priority(5).obj()
    quota = state.ledger.quota_of("a")
    assert quota is not None
    demand = (
        quota_demand(state, asking, quota) if reclaims else ordinary_demand(state, asking, spare_quotas=False)
    )
    field = CandidateMatrix(state.table, demand, np.arange(NODES), NODES)
    deficit = np.repeat(state.vector(asking)[:, None], NODES, axis=1)
    exact = {slot: cost for cost, slot, _ in everything_at_once(state, field, demand, deficit, [])}
    bound = Bounds(field, loans_of(state.table, demand), deficit, state.nodes.name_ranks())
    seen = [int(position) for block, _ in bound.blocks() for position in block]
    known = {int(bound.lanes[position]): bound.cost(position) for position in seen}
    assert set(exact) == set(known) if not reclaims else set(exact) <= set(known)
    assert all(known[slot] <= cost for slot, cost in exact.items())
    assert [bound.cost(position) for position in seen] == sorted(bound.cost(position) for position in seen)
    others = [least for _, least in bound.blocks()]
    firsts = [bound.cost(int(block[0])) for block, _ in bound.blocks()]
    assert all(least is not None and least <= first for least, first in zip(others, firsts[1:], strict=False))
    if not reclaims:
        assert all(cost[0] == 0 for cost in known.values())
