"""Tables of costs over several words: order, products and how a product is taken apart."""

from __future__ import annotations

from itertools import product as pairs

import numpy as np
import pytest

from scheduler_core.topology.exact.tables import (
    OutOfBudget,
    first_smallest,
    infeasible,
    keep_smaller,
    product,
    split,
)
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.placer import never
from tests.support.every import every_seed


def test_the_first_word_decides_before_the_second() -> None:
    best = np.array([[3, 5, 5, 7], [9, 1, 4, 0]])
    keep_smaller(best, np.array([[2, 5, 5, 8], [99, 2, 3, 0]]))
    assert best.tolist() == [[2, 5, 5, 7], [99, 1, 3, 0]]


def test_the_first_of_equal_costs_is_chosen_and_none_of_infeasible_ones() -> None:
    assert first_smallest(np.array([[4, 2, 2, 2], [0, 3, 1, 1]])) == 2
    assert first_smallest(infeasible((2, 3))) == -1
    assert first_smallest(infeasible((2, 0))) == -1


def random_table(rng: np.random.Generator, used: int, added: int) -> np.ndarray:
    """Costs of two words with gaps; where used children are counted, none used means nothing added."""
    table = rng.integers(0, 4, (2, 1, used, added))
    table[0][rng.random(table[0].shape) < 0.3] = INFEASIBLE
    if used > 1:
        table[0, :, 0] = INFEASIBLE
        table[:, :, 0, 0] = 0
    return table


@every_seed(range(60))
def test_a_product_is_the_cheapest_sum_and_can_be_taken_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counted = seed % 2 == 1
    left, right = (
        random_table(rng, int(rng.integers(2, 4)) if counted else 1, int(rng.integers(1, 6)))
        for _ in range(2)
    )
    merged = product(left, right, 3, 7, never)
    for used, added in pairs(range(merged.shape[2]), range(merged.shape[3])):
        sums = [
            tuple((left[:, 0, used - k, added - c] + right[:, 0, k, c]).tolist())
            for k, c in pairs(range(right.shape[2]), range(right.shape[3]))
            if 0 <= used - k < left.shape[2] and 0 <= added - c < left.shape[3]
        ]
        cheapest = min((cost for cost in sums if cost[0] < INFEASIBLE), default=None)
        if cheapest is None:
            assert merged[0, 0, used, added] >= INFEASIBLE
            continue
        assert tuple(merged[:, 0, used, added].tolist()) == cheapest
        k, c = split(left[:, 0], right[:, 0], used, added)
        assert tuple((left[:, 0, used - k, added - c] + right[:, 0, k, c]).tolist()) == cheapest


def test_a_product_stops_when_the_budget_ends() -> None:
    table = np.zeros((1, 1, 1, 2), dtype=np.int64)
    with pytest.raises(OutOfBudget):
        product(table, table, 0, 2, lambda: True)
