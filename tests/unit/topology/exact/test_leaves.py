"""The closed forms of the lowest level: prices and placements agree."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.exact.leaves import fill_row, price_rows, sort_rows

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
