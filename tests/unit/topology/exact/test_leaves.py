"""The closed forms of the lowest level: prices and placements agree."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.exact.leaves import FEWEST_TO_SHARE, fill_leaves, fill_row, price_rows, sort_rows
from scheduler_core.topology.exact.merge import Siblings
from scheduler_core.topology.problem import pose
from scheduler_core.topology.tree import build

RULES = {
    "pack": LevelRule("node"),
    "spread": LevelRule("node", spread=True),
    "pack in a range": LevelRule("node", min=2, max=4),
    "spread in a range": LevelRule("node", spread=True, min=2, max=4),
    "pack by threes": LevelRule("node", factor=3),
    "spread by twos": LevelRule("node", spread=True, factor=2, min=3),
    "three parts": LevelRule("node", partitions=3),
    "three even parts": LevelRule("node", spread=True, partitions=3, min=2),
    "one node": LevelRule("node", hard=True),
    "one per node": LevelRule("node", spread=True, hard=True),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_what_is_priced_is_what_is_handed_out(rule: LevelRule) -> None:
    rng = np.random.default_rng(5)
    slots = rng.integers(0, 9, (20, 6))
    counts = np.arange(1, 31)
    prices = price_rows(sort_rows(slots, rule, 30), rule, counts)
    assert prices.feasible.any()
    for row, column in np.argwhere(prices.feasible).tolist():
        shares = fill_row(slots[row].tolist(), rule, 30, int(counts[column]))
        assert sum(shares.values()) == counts[column]
        assert all(rule.allows(share, 30) and share <= slots[row, node] for node, share in shares.items())
        assert len(shares) == prices.used[row, column]
        assert sum(share * share for share in shares.values()) == prices.squares[row, column]
        assert sum(int(slots[row, node]) for node in shares) == prices.slots[row, column]


HANDED_OUT = {
    "pack fills the roomiest, and the tightest takes the rest": ("pack", [3, 8, 4, 5], 10, {1: 8, 0: 2}),
    "spread fills like water": ("spread", [1, 8, 3, 8], 12, {0: 1, 2: 3, 1: 4, 3: 4}),
    "a minimum keeps the last node from holding one": ("pack in a range", [4, 4, 4], 9, {0: 4, 1: 3, 2: 2}),
    "one node is the tightest that holds all": ("one node", [9, 6, 7], 6, {1: 6}),
}


@pytest.mark.parametrize(("rule", "slots", "count", "shares"), HANDED_OUT.values(), ids=HANDED_OUT)
def test_how_pods_are_handed_out(rule: str, slots: list[int], count: int, shares: dict[int, int]) -> None:
    assert fill_row(slots, RULES[rule], 30, count) == shares


@pytest.mark.parametrize("kinds", [2, FEWEST_TO_SHARE // 2, FEWEST_TO_SHARE], ids=["two", "half", "all"])
@pytest.mark.parametrize("rule", [RULES["pack"], RULES["spread in a range"]], ids=["pack", "spread"])
def test_units_of_one_kind_are_priced_once_and_each_hands_out_its_own(rule: LevelRule, kinds: int) -> None:
    """Racks of three nodes, one of so many kinds each, the same nodes in another order."""
    names = [(f"r{rack}", f"n{rack}-{node}") for rack in range(FEWEST_TO_SHARE) for node in range(3)]
    tree = build(("rack", "node"), names)
    free = np.array([[3 + rack % kinds, 2, 4] for rack in range(FEWEST_TO_SHARE)])
    free[1::2] = free[1::2, ::-1]
    problem = pose(tree, free.ravel(), 12, (LevelRule("rack"), rule), None)
    children = np.arange(free.size).reshape(free.shape)
    counts = np.array([0, 2, 5, 9])
    whole = fill_leaves(problem, Siblings(np.arange(len(free)), children), counts)
    for row in range(len(free)):
        alone = fill_leaves(problem, Siblings(np.array([row]), children[row : row + 1]), counts)
        assert whole.table[:, row].tolist() == alone.table[:, 0].tolist()
        shares = dict(whole.take_apart(row, 5))
        assert sum(shares.values()) == 5
        assert shares == dict(alone.take_apart(0, 5))
        assert all(child in children[row] and free.ravel()[child] >= n for child, n in shares.items())
