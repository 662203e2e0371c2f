"""The least that victims of a node can cost, held against sums over one node after the other."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil, inf

import numpy as np
import pytest

from scheduler_core.framework.preemption import cost_bounds, node_order
from scheduler_core.framework.preemption.cost_bounds import (
    NO_VICTIM,
    PRIORITY_OFFSET,
    Bounds,
    CandidateMatrix,
    Cost,
)
from scheduler_core.framework.preemption.loans import loans_of
from scheduler_core.framework.preemption.node_order import CheapestFirst
from tests.support.every import every_seed
from tests.unit.framework.preemption.candidates import WIDTH, Given, Runs, Sizes, some
from tests.unit.framework.preemption.test_lanes import OneNode


def least(given: Given, slot: int, lacks: Sizes, all_lacks: list[Sizes], rank: int) -> Cost | None:
    """The bound of one node; None if its candidates together are not enough."""
    pods = given.on(slot)
    contended = [r for r in range(WIDTH) if any(other[r] for other in all_lacks)]
    sums = {r: sum(pod.sizes[r] for pod in pods) for r in contended}
    if any(sums[r] < lacks[r] for r in contended):
        return None
    reach = 0
    if given.loans is not None:
        # Victims that are no loan by themselves, where the others do not free enough.
        odd = {pod: given.reach([pod], [r for r in contended if lacks[r]]) for pod in pods}
        within = [pod for pod in pods if not odd[pod]]
        if any(sum(pod.sizes[r] for pod in within) < lacks[r] for r in contended):
            reach = min(value for value in odd.values() if value)
    largest = {r: max([1, *(pod.sizes[r] for pod in pods)]) for r in contended}
    count = max((ceil(lacks[r] / largest[r]) for r in contended), default=0)
    if not count:
        return (reach, 0, 0, NO_VICTIM, 0, 0, 0, -inf, rank)
    last = next(
        place
        for place in range(len(pods))
        if all(sum(pod.sizes[r] for pod in pods[: place + 1]) >= lacks[r] for r in contended)
    )
    top = pods[last].priority
    total = sum(pod.priority + PRIORITY_OFFSET for pod in pods[: count - 1]) + top + PRIORITY_OFFSET
    return (reach, 0, 0, top, total, count, 0, -pods[last].start, rank)


def drawn(rng: random.Random) -> tuple[Given, list[Sizes], list[int]]:
    """Who runs on up to eight nodes, what lacks on each, and the places of their names."""
    given = some(rng, slots=rng.randint(1, 8), most=4)
    if rng.random() < 0.3:
        # As with bytes: what lies beyond a loan is less than a millionth of the request.
        given = replace(given, asks=tuple(10**7 * amount for amount in given.asks))
    named = [rng.random() < 0.7 for _ in range(WIDTH)]
    lacks = [tuple(rng.choice((0, 1, 2, 3)) * named[r] for r in range(WIDTH)) for _ in range(given.slots)]
    return given, lacks, rng.sample(range(20), given.slots)


def arrays(
    given: Given, lacks: list[Sizes], ranks: list[int]
) -> tuple[CandidateMatrix, np.ndarray, np.ndarray]:
    table = given.table()
    field = CandidateMatrix(table, given.demand(table), np.arange(given.slots), given.slots)
    return field, np.array(lacks, dtype=np.int64).T, np.array(ranks, dtype=np.int64)


@every_seed(range(150))
def test_bounds_are_what_sums_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    given, lacks, ranks = drawn(rng)
    block, largest = rng.choice(((1, 2), (2, 3), (64, 1024)))
    monkeypatch.setattr(cost_bounds, "FIRST_BLOCK", block)
    monkeypatch.setattr(cost_bounds, "LARGEST_BLOCK", largest)
    field, deficit, names = arrays(given, lacks, ranks)
    found = Bounds(field, loans_of(field.table, given.demand(field.table)), deficit, names)
    blocks = list(found.blocks())
    expected = {
        slot: cost
        for slot in range(given.slots)
        if (cost := least(given, slot, lacks[slot], lacks, ranks[slot])) is not None
    }
    order_ = [int(position) for part, _ in blocks for position in part]
    told = f"seed {seed}: {given}, {lacks}"
    assert [(int(found.lanes[p]), found.cost(p)) for p in order_] == sorted(
        expected.items(), key=lambda item: item[1]
    ), told
    assert found.lacking.tolist() == [r for r in range(WIDTH) if any(row[r] for row in lacks)]
    for number, (part, others) in enumerate(blocks):
        assert 0 < len(part) <= max(block, largest)
        if number + 1 < len(blocks):
            after = found.cost(int(blocks[number + 1][0][0]))
            before = found.cost(int(part[-1]))
            assert others is not None, told
            assert before[: len(others)] <= others <= after, told
            assert others == after[: len(others)], "as near as is known without looking"
        else:
            assert others is None, told


def test_the_first_block_is_as_long_as_its_limit_and_then_they_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_bounds, "FIRST_BLOCK", 2)
    monkeypatch.setattr(cost_bounds, "LARGEST_BLOCK", 16)
    running = tuple(Runs(f"v{slot}", "b", slot, (1, 0, 0), slot // 13) for slot in range(26))
    given = Given(running, slots=26)
    field, deficit, names = arrays(given, [(1, 0, 0)] * 26, list(range(26)))
    found = list(Bounds(field, None, deficit, names).blocks())
    assert [len(part) for part, _ in found] == [2, 8, 3, 8, 5]
    limited = [others for _, others in found]
    assert limited[2] == (0.0, 0.0, 0.0, 1.0), "what is not sorted yet costs at least its top priority"


def test_nodes_on_which_only_some_are_looked_at_have_their_own_columns() -> None:
    running = tuple(Runs(f"v{slot}", "b", slot, (slot + 1, 0, 0)) for slot in range(4))
    given = Given(running, slots=4)
    table = given.table()
    for slots in ([1, 3], [0, 1, 2, 3]):
        field = CandidateMatrix(table, given.demand(table), np.array(slots), 4)
        assert field.amounts(0).max(axis=0).tolist() == [slot + 1 for slot in slots]
        assert field.chosen.sum() == len(slots)


def test_cells_without_a_pod_hold_nothing_even_where_the_table_is_full() -> None:
    """An empty cell reads the last row of the table."""
    last = Runs("last", "b", 1, (5, 0, 0))
    running = (*(Runs(f"v{i}", "b", 0, (1, 0, 0)) for i in range(63)), last)
    given = Given(running, asks=(5, 0, 0), loans={"b": (1, 0, 0)}, slots=2)
    table = given.table()
    assert len(table.alive) == len(running)
    field = CandidateMatrix(table, given.demand(table), np.array([1, 0]), 2)
    assert field.chosen.sum(axis=0).tolist() == [63, 1] or field.chosen.sum(axis=0).tolist() == [1, 63]
    assert sorted(field.amounts(0).sum(axis=0).tolist()) == [5, 63]
    names = np.array([0, 1])
    found = Bounds(field, loans_of(table, given.demand(table)), np.array([[5, 5], [0, 0], [0, 0]]), names)
    reaches = {int(found.lanes[p]): found.cost(int(p))[0] for part, _ in found.blocks() for p in part}
    assert sorted(reaches.values()) == [0, 800_000], (
        "of the many small ones none is beyond the loan by itself"
    )


Found = list[tuple[Cost, int, list[str]]]


def offers(given: Given, lacks: list[Sizes], ranks: list[int]) -> Found:
    field, deficit, names = arrays(given, lacks, ranks)
    demand = given.demand(field.table)
    found = CheapestFirst(field, demand, deficit, given.known_budgets(field.table), names)
    return [(offer.cost, offer.slot, given.names(offer.rows)) for offer in found]


def best_of_all(given: Given, slot: int, lacks: Sizes) -> tuple[Cost, list[Runs]] | None:
    """The cheapest lawful set of one node's candidates."""
    pods = given.on(slot)
    contended = given.contended(lacks)
    ways = []
    for number in range(1 << len(pods)):
        gone = [pod for place, pod in enumerate(pods) if number >> place & 1]
        freed = [sum(pod.sizes[r] for pod in gone) for r in range(WIDTH)]
        if all(freed[r] >= lacks[r] for r in range(WIDTH)) and given.lawful(gone):
            ways.append((given.cost(gone, contended), gone))
    return min(ways, key=lambda way: way[0]) if ways else None


@every_seed(range(200))
def test_flaws_are_offered_only_where_no_set_is_without_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offers come in order of cost, of every node at most one; flawed ones are the best of all sets."""
    rng = random.Random(5000 + seed)
    given, lacks, ranks = drawn(rng)
    monkeypatch.setattr(cost_bounds, "FIRST_BLOCK", rng.choice((1, 2, 64)))
    found = offers(given, lacks, ranks)
    told = f"seed {seed}: {given}, {lacks}"
    assert [cost for cost, _, _ in found] == sorted(cost for cost, _, _ in found), told
    assert len({slot for _, slot, _ in found}) == len(found), told
    known = {slot: (cost, names) for cost, slot, names in found}
    for slot in range(given.slots):
        best = best_of_all(given, slot, lacks[slot])
        assert (slot in known) is (best is not None), told
        if best is None:
            continue
        cost, names = known[slot]
        gone = [pod for pod in given.on(slot) if pod.name in names]
        assert names == [pod.name for pod in gone][::-1], told
        assert cost[-1] == ranks[slot]
        assert given.lawful(gone), told
        assert given.cost(gone, given.contended(lacks[slot])) == cost[:-1], told
        if any(cost[:3]):
            # Where nothing else is told apart the node is.
            assert cost[:-1] == best[0], told
        assert best[0] <= cost[:-1], told


def by_order_alone(given: Given, lacks: list[Sizes], ranks: list[int]) -> Found:
    """The offers of an order of removal on every node; if there are none, of other quotas as well."""
    found: Found = []
    for rest in (False, True) if given.loans is not None else (False,):
        for slot in range(given.slots):
            node = OneNode(given, slot, lacks[slot])
            node.remove()
            if rest:
                node.remove_rest()
            node.reprieve()
            contended = [r for r in range(WIDTH) if lacks[slot][r]]
            if not node.missing():
                cost = (*given.cost(list(node.gone), contended), ranks[slot])
                found.append((cost, slot, node.victims()))
        if found:
            break
    return sorted(found)


@every_seed(range(150))
def test_where_no_node_is_decided_exactly_the_order_of_removal_decides(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_order, "MOST_EXACT_LANES", 0)
    rng = random.Random(9000 + seed)
    given, lacks, ranks = drawn(rng)
    monkeypatch.setattr(cost_bounds, "FIRST_BLOCK", rng.choice((1, 2, 64)))
    assert offers(given, lacks, ranks) == by_order_alone(given, lacks, ranks), f"seed {seed}: {given}"


def alike(count: int, *loan: int) -> tuple[Given, list[Sizes]]:
    """Nodes with one candidate each, as large as what lacks, of a quota that lends so much."""
    running = tuple(Runs(f"v{slot}", "b", slot, (2, 0, 1)) for slot in range(count))
    return Given(running, asks=(2, 0, 0), loans={"b": loan}, slots=count), [(2, 0, 0)] * count


@pytest.mark.parametrize(
    ("name", "value"), [("MOST_CANDIDATES", 0), *(("MOST_EXACT_LANES", n) for n in range(3))]
)
def test_nodes_that_are_not_decided_exactly_come_in_their_place(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, lacks = alike(3, 1, 0, 0)
    assert [slot for _, slot, _ in offers(given, lacks, [2, 0, 1])] == [1, 2, 0]
    expected = offers(given, lacks, [2, 0, 1])
    monkeypatch.setattr(node_order, name, value)
    assert offers(given, lacks, [2, 0, 1]) == expected


def test_only_so_many_nodes_are_searched_for_what_borrows_nothing_that_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody lends the resource that lacks, so the quotas over min in another one are asked."""
    given, lacks = alike(8, 0, 0, 1)
    monkeypatch.setattr(node_order, "MOST_EXACT_LANES", 0)
    for most in (1, 2, 3, 5, 8, 9):
        monkeypatch.setattr(node_order, "MOST_SINGLE_LANES", most)
        for block in (1, 2, 64):
            monkeypatch.setattr(cost_bounds, "FIRST_BLOCK", block)
            assert [slot for _, slot, _ in offers(given, lacks, list(range(8)))] == list(range(8))[:most]


def test_of_few_candidates_that_free_something_needed_all_sets_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The least important together are more than is lent; the large one alone is as much."""
    running = (
        *(Runs(f"small{i}", "b", 0, (2, 0, 0)) for i in range(2)),
        Runs("large", "b", 0, (3, 0, 0), priority=1),
        Runs("useless", "b", 0, (0, 1, 0)),
    )
    given = Given(running, asks=(3, 0, 0), loans={"b": (3, 0, 0)})
    lacks = [(3, 0, 0)]
    (exact,) = offers(given, lacks, [0])
    monkeypatch.setattr(node_order, "MOST_CANDIDATES", 3)
    assert offers(given, lacks, [0]) == [exact], "three of them free what is lacking"
    monkeypatch.setattr(node_order, "MOST_CANDIDATES", 2)
    (by_order,) = offers(given, lacks, [0])
    assert (exact[2], by_order[2]) == (["large"], ["small1", "small0"])
