"""Small clusters in full: the orders in which pods arrive, held against a model that shares no code.

Random clusters (`test_preemption_rules.py`) find what nobody thought of. In the long search no order is left
out here; `make test` tries a third of them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from tests.support.builders import make_budget
from tests.support.oracles.preemption_audit import Audit
from tests.support.oracles.random_cluster import FREE_NAMESPACE, Cluster, RandomPod, RandomQuota
from tests.support.searches import PART

# Every so many orders; the long search (make fuzz) leaves out none.
STEP: Final = int(os.environ.get("MUSTER_ORDERS_STEP", 3 * PART))
# min and max of CPUs by quota; the nodes have as much as all min together.
SHARES: Final = {
    "two equal": ((2, 4), (2, 4)),
    "one lends all": ((4, 4), (0, 4)),
    "three": ((1, 4), (1, 2), (2, 4)),
    "four": ((1, 4), (1, 4), (1, 4), (1, 2)),
    "one without min": ((3, 3), (1, 4), (0, 4)),
}
# Pods as (quota, CPUs, priority); the first ones run when the others arrive.
Waiting = tuple[tuple[int, int, int], ...]
ARRIVALS: Final[tuple[Waiting, ...]] = (
    ((0, 1, 0), (1, 1, 0), (0, 2, 0), (1, 1, 5)),
    ((0, 2, 0), (1, 2, 5), (0, 1, 5), (-1, 1, 10)),
)
RUNNING: Final = (
    ((1, 1, 0),) * 4,
    ((0, 1, 5), (0, 1, 0), (1, 1, 0), (-1, 1, 0)),
    ((0, 1, 0), (1, 1, 10), (1, 1, 0), (1, 1, 0)),
)
NODES: Final = (("n0",), ("n0", "n1"))
MODES: Final[tuple[dict[str, Any], ...]] = ({"one_by_one": True}, {}, {"slow": True})


def pod(place: int, name: str, cpu: int, priority: int, node: str = "") -> RandomPod:
    namespace = f"q{place}" if place >= 0 else FREE_NAMESPACE
    return RandomPod(namespace, name, {"cpu": cpu}, priority, node)


def world(
    shares: Sequence[tuple[int, int]],
    nodes: Sequence[str],
    running: Waiting,
    arrivals: Sequence[tuple[int, int, int]],
    budgets: tuple[dict[str, Any], ...] = (),
) -> Cluster:
    """At most four quotas and eight pods; what runs fills the nodes in turn, as far as there is room."""
    total = sum(low for low, _ in shares)
    rooms = {name: {"cpu": total // len(nodes), "pods": 8} for name in nodes}
    left = {name: room["cpu"] for name, room in rooms.items()}
    placed = []
    for index, (place, cpu, priority) in enumerate(running):
        node = next((name for name in nodes if left[name] >= cpu), "")
        if node:
            left[node] -= cpu
            placed.append(pod(place, f"r{index}", cpu, priority, node))
    waiting = [pod(place, f"w{i}", cpu, priority) for i, (place, cpu, priority) in enumerate(arrivals)]
    quotas = {
        f"q{i}": RandomQuota(f"q{i}", {"cpu": low}, {"cpu": high}) for i, (low, high) in enumerate(shares)
    }
    return Cluster(rooms, quotas, (*placed, *waiting), budgets)


def worlds(shares: Sequence[tuple[int, int]], nodes: Sequence[str]) -> Iterator[tuple[Cluster, str]]:
    """Every set of running pods, every set of arriving ones in every order, with and without a budget."""
    for (at, running), arrivals in itertools.product(enumerate(RUNNING), ARRIVALS):
        for turn, order in enumerate(itertools.permutations(arrivals)):
            if (turn + turn // STEP + at) % STEP:
                continue
            budget = make_budget("q1/budget").selects(app="a").allows(turn % 2).dict()
            budgets = (budget,) if turn % 3 == 0 else ()
            yield world(shares, nodes, running, order, budgets), f"running {at}, arriving {order}"


@pytest.mark.parametrize("nodes", NODES, ids=["one node", "two nodes"])
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_every_order_of_arrival_is_lawful_minimal_and_complete(
    shares: Sequence[tuple[int, int]], nodes: Sequence[str]
) -> None:
    evicted = 0
    for turn, (cluster, said) in enumerate(worlds(shares, nodes)):
        mode = MODES[turn % len(MODES)]
        audit = Audit(cluster, **mode).play()
        assert not audit.faults, f"{said}, {mode}: {audit.faults[0]}"
        evicted += len(audit.evicted)
    assert evicted, "nothing was tried"
