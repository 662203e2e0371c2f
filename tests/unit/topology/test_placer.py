"""Placements: the examples of docs/topology.md and of its proposal, and the guarantees of the placer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from scheduler_core.topology.constraints import LevelRule, Term, parse_rules
from scheduler_core.topology.placer import GroupPlacement, Infeasible, can_place, place
from scheduler_core.topology.tree import Tree, build, flat


@dataclass(frozen=True)
class Case:
    """free: slots by unit path, nodes at the bottom. nodes: the only right counts, where there is one."""

    free: dict[str, dict[str, int]]
    size: int
    constraints: str
    values: tuple[int, ...] | None
    nodes: dict[str, int] | None = None
    level: str = "rack"


def tree_of(free: dict[str, dict[str, int]], level: str = "rack") -> tuple[Tree, np.ndarray]:
    """A two-level tree with its slots; a single unnamed unit makes a flat one."""
    if list(free) == [""]:
        tree = flat(free[""])
    else:
        tree = build((level, "node"), [(unit, node) for unit, nodes in free.items() for node in nodes])
    slots = {node: count for nodes in free.values() for node, count in nodes.items()}
    return tree, np.array([slots[node] for node in tree.leaves])


def used(tree: Tree, placement: GroupPlacement) -> dict[str, int]:
    return {node: count for node, count in zip(tree.leaves, placement.counts.tolist(), strict=True) if count}


def nodes(*free: int, first: int = 0) -> dict[str, int]:
    return {f"node-{first + index}": count for index, count in enumerate(free)}


PACKED_RACK = '{"rack": {"type": "pack"}, "node": {"type": "spread"}}'
TWO_RACKS_OF_THREE = {"rack-0": nodes(8, 8, 8), "rack-1": nodes(8, 8, 8, first=3)}
SEED_CASES = {
    "group-a on an idle cluster takes one rack, 3 + 3 + 2": Case(
        TWO_RACKS_OF_THREE, 8, PACKED_RACK, (1, 22), {"node-0": 3, "node-1": 3, "node-2": 2}
    ),
    "group-a stays on the rack with one full node, 5 + 3": Case(
        {"rack-0": nodes(8, 3, 0), "rack-1": nodes(2, 2, 2, first=3)},
        8,
        PACKED_RACK,
        (1, 34),
        {"node-0": 5, "node-1": 3},
    ),
    "group-a overflows, six on one rack and two on the other": Case(
        {"rack-0": nodes(3, 0, 3), "rack-1": nodes(1, 0, 1, first=3)},
        8,
        PACKED_RACK,
        (2, 20),
        {"node-0": 3, "node-2": 3, "node-3": 1, "node-5": 1},
    ),
    "user A: two halves on two racks, each packed, the fuller node preferred": Case(
        {"rack-0": nodes(5, 1, 2), "rack-1": nodes(2, 2, 2, first=3), "rack-2": nodes(0, 2, 3, first=6)},
        8,
        '{"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}',
        (32, 3),
        {"node-0": 4, "node-7": 1, "node-8": 3},
    ),
    "user B: the server where two to four per node come out even": Case(
        {"server-0": nodes(5, 1, 3), "server-1": nodes(3, 2, 2, 3, first=3)},
        6,
        '{"server": {"type": "pack"}, "node": {"type": "spread", "min": 2, "max": 4}}',
        (1, 12),
        level="server",
    ),
    "multiples of four on three nodes": Case(
        {"": nodes(6, 6, 5, 3)},
        12,
        '{"node": {"type": "pack", "factor": 4}}',
        (3,),
        {"node-0": 4, "node-1": 4, "node-2": 4},
    ),
    "ten in three partitions are 4 + 3 + 3": Case(
        {"": nodes(8, 8, 8, 8, 8)}, 10, '{"node": {"type": "spread", "partitions": 3}}', (34,)
    ),
    "a hard pack that no node can hold waits": Case(
        {"": nodes(9, 9, 9)}, 10, '{"node": {"type": "pack", "hard": true}}', None
    ),
    "five in counts of three to four wait": Case(
        {"": nodes(8, 8, 8)}, 5, '{"node": {"type": "pack", "min": 3, "max": 4}}', None
    ),
    "two partitions per rack take the rack whose nodes are even": Case(
        {"rack-0": nodes(3, 2, 2), "rack-1": nodes(3, 3, first=3)},
        6,
        '{"rack": {"type": "pack"}, "node": {"type": "spread", "partitions": 2}}',
        (1, 18),
        {"node-3": 3, "node-4": 3},
    ),
    "spread over racks before packing nodes": Case(
        {"rack-0": nodes(8, 8), "rack-1": nodes(4, 1, first=2), "rack-2": nodes(1, 1, first=4)},
        7,
        '{"rack": {"type": "spread"}, "node": {"type": "pack"}}',
        (17, 4),
    ),
}


@pytest.mark.parametrize("case", SEED_CASES.values(), ids=SEED_CASES)
def test_the_placements_of_the_seed(case: Case) -> None:
    tree, slots = tree_of(case.free, case.level)
    found = place(tree, slots, case.size, parse_rules(tree.levels, case.constraints))
    if case.values is None:
        assert isinstance(found, Infeasible)
        return
    assert isinstance(found, GroupPlacement)
    assert (found.values, found.optimal) == (case.values, True)
    assert found.counts.sum() == case.size
    assert (found.counts <= slots).all()
    if case.nodes is not None:
        assert used(tree, found) == case.nodes


def test_partitions_of_zones_and_of_racks_with_a_minimum_per_node() -> None:
    free = {
        "zone-0": [[2, 2, 2], [2, 2, 2], [2, 2, 2]],
        "zone-1": [[2, 2, 2], [2, 1, 2], [1, 1, 1]],
        "zone-2": [[2, 2, 1], [2, 2], [2, 1]],
    }
    paths, slots = [], {}
    for zone, racks in free.items():
        for rack, row in enumerate(racks):
            for count in row:
                node = f"node-{len(slots)}"
                paths.append((zone, f"{zone}-rack-{rack}", node))
                slots[node] = count
    tree = build(("zone", "rack", "node"), paths)
    text = '{"zone": {"type": "spread", "partitions": 2}, "rack": {"type": "spread", "partitions": 2},'
    rules = parse_rules(tree.levels, text + ' "node": {"type": "spread", "min": 2}}')
    found = place(tree, np.array([slots[node] for node in tree.leaves]), 16, rules)
    assert isinstance(found, GroupPlacement)
    assert found.values == (128, 64, 32)
    assert set(used(tree, found).values()) == {2}


def test_without_constraints_every_level_packs() -> None:
    tree, slots = tree_of(TWO_RACKS_OF_THREE)
    found = place(tree, slots, 8, parse_rules(tree.levels, ""))
    assert isinstance(found, GroupPlacement)
    assert used(tree, found) == {"node-0": 8}


def test_of_equal_racks_the_tighter_one_is_taken_and_then_the_first_by_name() -> None:
    tree, slots = tree_of(
        {"rack-2": nodes(8, 8), "rack-10": nodes(8, 4, first=2), "rack-9": nodes(8, 4, first=4)}
    )
    found = place(tree, slots, 8, parse_rules(tree.levels, ""))
    assert isinstance(found, GroupPlacement)
    assert used(tree, found) == {"node-4": 8}


def test_a_hard_spread_puts_one_pod_on_a_node() -> None:
    tree, slots = tree_of(TWO_RACKS_OF_THREE)
    rules = parse_rules(tree.levels, '{"node": {"type": "spread", "hard": true}}')
    found = place(tree, slots, 4, rules)
    assert isinstance(found, GroupPlacement)
    assert found.values == (2, 4)
    assert isinstance(place(tree, slots, 7, rules), Infeasible)


def test_a_replacement_joins_the_members_that_stay() -> None:
    tree, slots = tree_of(TWO_RACKS_OF_THREE)
    fixed = np.array([0, 0, 0, 3, 2, 2])
    found = place(tree, slots, 8, parse_rules(tree.levels, PACKED_RACK), fixed=fixed)
    assert isinstance(found, GroupPlacement)
    assert found.values == (1, 22)
    assert found.added.sum() == 1
    assert (found.counts == fixed + found.added).all()


def test_a_replacement_keeps_strict_rules_with_the_members_that_stay() -> None:
    tree, slots = tree_of({"": nodes(8, 8, 8)})
    rules = parse_rules(tree.levels, '{"node": {"factor": 4}}')
    found = place(tree, slots, 8, rules, fixed=np.array([4, 3, 0]))
    assert isinstance(found, GroupPlacement)
    assert found.added.tolist() == [0, 1, 0]


def test_more_members_than_the_group_has_are_refused() -> None:
    tree, slots = tree_of({"": nodes(8)})
    found = place(tree, slots, 2, parse_rules(tree.levels, ""), fixed=np.array([3]))
    assert isinstance(found, Infeasible)
    assert found.reason == "3 members are placed already, the group has 2"


def test_too_few_slots_are_no_conflict_of_rules() -> None:
    tree, slots = tree_of({"": nodes(2, 1)})
    found = place(tree, slots, 4, parse_rules(tree.levels, '{"node": {"max": 2}}'))
    assert found == Infeasible("4 members need a slot, the nodes of the topology have 3 free")


def test_the_smallest_conflict_leaves_out_what_does_not_matter() -> None:
    tree, slots = tree_of(TWO_RACKS_OF_THREE)
    text = '{"rack": {"partitions": 3, "min": 1}, "node": {"max": 4, "factor": 2}}'
    found = place(tree, slots, 8, parse_rules(tree.levels, text))
    assert isinstance(found, Infeasible)
    assert found.conflict == (Term("rack", "partitions", 3),)
    assert "rack.partitions=3" in found.reason


def test_a_budget_that_ends_still_gives_a_legal_placement_and_says_so() -> None:
    tree = build(("zone", "rack", "node"), [(f"z{n % 2}", f"r{n % 8}", f"n{n}") for n in range(64)])
    slots = np.arange(64) % 5
    rules = parse_rules(tree.levels, '{"rack": {"partitions": 2}, "node": {"factor": 2}}')
    found = place(tree, slots, 20, rules, expired=lambda: True)
    best = place(tree, slots, 20, rules)
    assert isinstance(found, GroupPlacement)
    assert isinstance(best, GroupPlacement)
    assert (found.optimal, best.optimal) == (False, True)
    assert found.counts.sum() == 20
    assert (found.counts % 2 == 0).all()
    assert best.values <= found.values


def test_the_same_question_gets_the_same_answer() -> None:
    tree, slots = tree_of(TWO_RACKS_OF_THREE)
    rules = parse_rules(tree.levels, PACKED_RACK)
    first, second = place(tree, slots, 11, rules), place(tree, slots, 11, rules)
    assert isinstance(first, GroupPlacement)
    assert isinstance(second, GroupPlacement)
    assert (first.counts == second.counts).all()


def test_costs_that_do_not_fit_one_word_stay_exact() -> None:
    fanout = [(f"a{i % 2}", f"b{i % 4}", f"c{i % 8}", f"d{i % 16}", f"e{i}") for i in range(64)]
    tree = build(("a", "b", "c", "d", "e"), fanout)
    rules = tuple(LevelRule(level, spread=True) for level in tree.levels)
    found = place(tree, np.full(64, 10_000), 1024, rules)
    assert isinstance(found, GroupPlacement)
    assert found.values == (2 * 512**2, 4 * 256**2, 8 * 128**2, 16 * 64**2, 64 * 16**2)


@pytest.mark.parametrize("size", [0, 3])
def test_an_empty_tree_holds_only_an_empty_group(size: int) -> None:
    tree = flat(())
    slots = np.zeros(0, dtype=np.int64)
    assert isinstance(place(tree, slots, size, parse_rules(tree.levels, "")), GroupPlacement) == (size == 0)
    assert can_place(tree, slots, size, parse_rules(tree.levels, "")) == (size == 0)


def test_of_equal_units_the_first_by_name_is_taken_whatever_their_number_of_children() -> None:
    free = {"rack-0": nodes(4, 4, 0), "rack-1": nodes(4, 4, first=3), "rack-2": nodes(4, 4, 0, first=5)}
    tree, slots = tree_of(free)
    for size, taken in ((8, {"node-0": 4, "node-1": 4}), (4, {"node-0": 4})):
        found = place(tree, slots, size, parse_rules(tree.levels, ""))
        assert isinstance(found, GroupPlacement)
        assert used(tree, found) == taken


@pytest.mark.parametrize(
    "text", ['{"rack": {"partitions": 2}}', '{"rack": {"partitions": 1}}', '{"node": {"partitions": 3}}']
)
def test_a_group_of_nobody_keeps_every_rule(text: str) -> None:
    tree = build(("rack", "node"), (("r0", "n0"), ("r0", "n1"), ("r1", "n2"), ("r1", "n3"), ("r2", "n4")))
    placed = place(tree, np.array([3, 3, 3, 0, 1]), 0, parse_rules(tree.levels, text))
    assert isinstance(placed, GroupPlacement)
    assert placed.added.tolist() == [0] * 5
