"""Preemption by groups: the fewest and cheapest groups are victims, and none for a preference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.placer import Infeasible, can_place
from scheduler_core.topology.preemption import GroupPreemption, Victim, choose_victims
from scheduler_core.topology.tree import Tree, build
from tests.support.every import every_seed

TREE = build(("rack", "node"), [(f"rack-{node // 2}", f"node-{node}") for node in range(4)])


def slots(free: list[int], *frees: list[int]) -> Callable[[frozenset[int]], NDArray[np.int64]]:
    """Free slots when each victim frees the given number per node."""
    return lambda gone: (
        np.array(free) + sum((np.array(frees[index]) for index in gone), np.zeros(4, dtype=int))
    )


def chosen(found: GroupPreemption | Infeasible) -> tuple[int, ...]:
    assert isinstance(found, GroupPreemption)
    return found.victims


def groups(*costs: tuple[int, int]) -> list[Victim]:
    return [Victim(f"g{i}", priority, cost) for i, (priority, cost) in enumerate(costs)]


def test_no_group_is_evicted_while_the_group_can_be_placed() -> None:
    rules = parse_rules(TREE.levels, '{"rack": {"type": "pack"}}')
    found = choose_victims(TREE, slots([1, 1, 1, 1], [4, 0, 0, 0]), groups((0, 1)), 4, rules)
    assert chosen(found) == ()


def test_a_hard_rule_may_ask_for_a_victim() -> None:
    rules = parse_rules(TREE.levels, '{"rack": {"type": "pack", "hard": true}}')
    found = choose_victims(TREE, slots([1, 1, 1, 1], [2, 0, 0, 0]), groups((0, 1)), 4, rules)
    assert chosen(found) == (0,)


def test_one_large_group_goes_rather_than_two_small_ones() -> None:
    frees = slots([0, 0, 0, 0], [2, 0, 0, 0], [0, 2, 0, 0], [4, 0, 0, 0])
    rules = parse_rules(TREE.levels, "")
    assert chosen(choose_victims(TREE, frees, groups((0, 1), (0, 1), (5, 9)), 4, rules)) == (2,)


def test_of_equally_many_the_lowest_priority_and_then_the_cheapest_goes() -> None:
    frees = slots([0, 0, 0, 0], *([[4, 0, 0, 0]] * 4))
    rules = parse_rules(TREE.levels, "")
    victims = groups((3, 1), (1, 7), (1, 4), (1, 4))
    assert chosen(choose_victims(TREE, frees, victims, 4, rules)) == (2,)


def test_no_group_is_evicted_if_evicting_all_would_not_help() -> None:
    frees = slots([0, 0, 0, 0], [2, 0, 0, 0])
    found = choose_victims(TREE, frees, groups((0, 1)), 4, parse_rules(TREE.levels, ""))
    assert isinstance(found, Infeasible)


def test_a_budget_that_ends_leaves_a_set_of_which_nobody_can_be_spared() -> None:
    frees = slots([0, 0, 0, 0], [2, 0, 0, 0], [0, 2, 0, 0], [4, 0, 0, 0])
    rules = parse_rules(TREE.levels, "")
    found = choose_victims(TREE, frees, groups((0, 1), (0, 1), (5, 9)), 4, rules, expired=lambda: True)
    assert chosen(found) == (0, 1)


def is_enough(
    tree: Tree, frees: Callable[[frozenset[int]], NDArray[np.int64]], gone: tuple[int, ...]
) -> bool:
    rules = parse_rules(tree.levels, '{"rack": {"partitions": 2}}')
    return can_place(tree, frees(frozenset(gone)), 6, rules)


@every_seed(range(40))
def test_the_choice_is_the_fewest_and_cheapest_of_all_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    freed = rng.integers(0, 3, (5, 4)).tolist()
    victims = groups(*((int(rng.integers(0, 3)), int(rng.integers(0, 9))) for _ in range(5)))
    frees = slots(rng.integers(0, 2, 4).tolist(), *freed)
    options = [
        (
            number,
            max((victims[i].priority for i in gone), default=0),
            sum(victims[i].cost for i in gone),
            gone,
        )
        for number in range(6)
        for gone in combinations(range(5), number)
        if is_enough(TREE, frees, gone)
    ]
    found = choose_victims(TREE, frees, victims, 6, parse_rules(TREE.levels, '{"rack": {"partitions": 2}}'))
    if options:
        assert chosen(found) == min(options)[3]
    else:
        assert isinstance(found, Infeasible)
