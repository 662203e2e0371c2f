"""Costs as digits of words: no overflow, the right order, and the same order in every objective."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.objective import INFEASIBLE, build_objectives, convert, level_values
from scheduler_core.topology.tree import Tree, build

LEVELS = ("zone", "rack", "node")


def tree_of(nodes: int) -> Tree:
    return build(LEVELS, [(f"z{n % 2}", f"r{n % 8}", f"n{n}") for n in range(nodes)])


@pytest.mark.parametrize(("size", "slots", "words"), [(8, 4, 1), (1024, 8, 1), (10_000, 1 << 20, 2)])
def test_words_are_as_few_as_the_bounds_allow(size: int, slots: int, words: int) -> None:
    tree = tree_of(64)
    rules = tuple(LevelRule(level, spread=level == "rack") for level in LEVELS)
    rooms = tree.sums(np.full(64, slots))
    whole = build_objectives(tree, rules, size, rooms)[0]
    assert whole.words == words
    for word in range(words):
        digits = [digit for digit in whole.digits if digit.word == word]
        assert all(one.weight >= other.weight * other.radix for one, other in pairwise(digits))
        assert digits[0].weight * digits[0].radix <= INFEASIBLE


def test_lower_levels_are_written_in_fewer_words_and_convert_without_loss() -> None:
    tree = tree_of(64)
    rules = tuple(LevelRule(level) for level in LEVELS)
    rooms = tree.sums(np.full(64, 1 << 20))
    objectives = build_objectives(tree, rules, 10_000, rooms)
    low, whole = objectives[2], objectives[0]
    assert (low.words, whole.words) == (1, 2)
    counts, room = np.array([0, 1, 60, 10_000]), np.full(4, 1 << 20)
    costs = low.unit_costs(2, counts, room)
    assert convert(costs, low, whole).tolist() == whole.unit_costs(2, counts, room).tolist()
    assert convert(np.array([[INFEASIBLE]]), low, whole)[0, 0] == INFEASIBLE
    assert convert(costs, low, low) is costs


def test_values_per_level_are_used_units_or_sums_of_squares() -> None:
    tree = tree_of(8)
    counts = np.zeros(8, dtype=np.int64)
    counts[[0, 1, 4]] = [3, 2, 1]
    rules = (LevelRule("zone"), LevelRule("rack", spread=True), LevelRule("node"))
    assert level_values(tree, rules, counts) == (2, 14, 3)
