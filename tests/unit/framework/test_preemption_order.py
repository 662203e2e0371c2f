"""Nodes come in the order of what their victims cost, whether few of them were looked at or all."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler_core.framework.preemption import bounds
from scheduler_core.framework.preemption.bounds import Bounds, Field
from scheduler_core.framework.preemption.budgets import mark_violations
from scheduler_core.framework.preemption.demand import Demand, ordinary_demand, quota_demand
from scheduler_core.framework.preemption.lanes import Lanes
from scheduler_core.framework.preemption.order import CheapestFirst
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_budget, make_node, make_pod, make_quota

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
    state: ClusterState, field: Field, demand: Demand, deficit: np.ndarray, budgets: list[PodDisruptionBudget]
) -> list[tuple[object, ...]]:
    """(cost, slot, rows) of all nodes, by deciding each of them exactly."""
    lanes = Lanes(field, demand, np.arange(NODES), deficit)
    lanes.remove()
    mark_violations(lanes, budgets)
    lanes.reprieve()
    costs = lanes.costs(state.nodes.name_ranks())
    enough = [lane for lane in range(NODES) if lanes.satisfied[lane]]
    return sorted((costs[lane], int(lanes.slots[lane]), lanes.victims(lane).tolist()) for lane in enough)


@pytest.mark.parametrize("block", [1, 64])
@pytest.mark.parametrize("seed", range(60))
def test_cheapest_first_is_the_order_of_all(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_FIRST_BLOCK", block)
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
    field = Field(state.table, demand, np.arange(NODES), NODES)
    deficit = np.repeat(state.vector(asking)[:, None], NODES, axis=1)
    deficit = np.maximum(deficit - rng.randint(0, 2), 0)
    expected = everything_at_once(state, field, demand, deficit, budgets)
    offers = CheapestFirst(field, demand, deficit, budgets, state.nodes.name_ranks())
    found = [(offer.cost, offer.slot, offer.rows.tolist()) for offer in offers]
    assert found[: len(expected)] == expected
    if expected or not reclaims:
        assert len(found) == len(expected)


@pytest.mark.parametrize("seed", range(40))
def test_no_node_costs_less_than_its_bound(seed: int) -> None:
    rng = random.Random(1000 + seed)
    state = full_cluster(rng)
    asking = make_pod("f/p").requests(cpu=rng.randint(1, 6), memory=rng.randint(0, 8)).priority(5).obj()
    demand = ordinary_demand(state, asking, spare_quotas=False)
    field = Field(state.table, demand, np.arange(NODES), NODES)
    deficit = np.repeat(state.vector(asking)[:, None], NODES, axis=1)
    exact = {slot: cost for cost, slot, _ in everything_at_once(state, field, demand, deficit, [])}
    bound = Bounds(field, deficit, state.nodes.name_ranks())
    seen = [int(position) for block, _ in bound.blocks() for position in block]
    assert sorted(int(bound.lanes[position]) for position in seen) == sorted(exact)
    assert all(bound.cost(position) <= exact[int(bound.lanes[position])] for position in seen)
    assert [bound.cost(position) for position in seen] == sorted(bound.cost(position) for position in seen)
