"""Tables of costs over several words: order, products and how a product is taken apart."""

from __future__ import annotations

from itertools import product as pairs

import numpy as np
import pytest

from scheduler_core.topology.exact.merge import Siblings, gather_siblings, merge_siblings
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


def test_families_of_one_width_are_one_group_and_wider_ones_are_padded_by_at_most_half() -> None:
    def groups(*families: int) -> list[tuple[list[int], list[list[int]]]]:
        offsets = np.concatenate(([0], np.cumsum(families)))
        found = gather_siblings(offsets, np.arange(len(families)))
        return [(each.parents.tolist(), each.children.tolist()) for each in found]

    assert groups() == []
    assert groups(2, 2) == [([0, 1], [[0, 1], [2, 3]])]
    assert groups(3, 1, 4, 2) == [
        ([1], [[3]]),
        ([3], [[8, 9]]),
        ([0, 2], [[0, 1, 2, -1], [4, 5, 6, 7]]),
    ]


# Costs of a family's children by pods added; None: that many cannot be. How many children are used, the pods
# below each of two parents, and who then gets how many.
LINE: list[int | None] = [0, 3, 4]
MERGED: list[tuple[str, list[list[list[int | None]]], int | None, list[dict[int, int] | None]]] = [
    ("each its cheapest", [[LINE, [0, 1, 9]], [[0, 2, 2], LINE]], None, [{0: 2}, {2: 2}]),
    ("a child less", [[LINE, [0, 1, 9]], [[0, 2, 2]]], None, [{0: 2}, {2: 2}]),
    ("two children each", [[LINE, [0, 1, 9]], [[0, 2, 2], LINE]], 2, [{0: 1, 1: 1}, {2: 1, 3: 1}]),
    ("two children where one parent has one", [[LINE, [0, 1, 9]], [LINE]], 2, [{0: 1, 1: 1}, None]),
    ("one child each", [[[0, 1, None], [0, 1, None]], [LINE, [0, 1, 2]]], 1, [None, {3: 2}]),
    ("equal families", [[[0, 2, 4], [0, 2, 4], [0, 1, None]]] * 2, None, [{0: 1, 2: 1}, {3: 1, 5: 1}]),
]


@pytest.mark.parametrize(
    ("families", "exact", "shares"), [case[1:] for case in MERGED], ids=[case[0] for case in MERGED]
)
def test_who_gets_two_pods_below_each_parent(
    families: list[list[list[int | None]]], exact: int | None, shares: list[dict[int, int] | None]
) -> None:
    children = [child for family in families for child in family]
    table = np.array([[[INFEASIBLE if cell is None else cell for cell in child] for child in children]])
    widest, rows, unit = max(map(len, families)), [], 0
    for family in families:
        rows.append([*range(unit, unit + len(family)), *[-1] * (widest - len(family))])
        unit += len(family)
    siblings = Siblings(np.arange(len(families)), np.array(rows))
    merge = merge_siblings(table, siblings, exact, np.zeros(unit, dtype=np.bool_), 2, never)
    assert merge.table[0, :, 0].tolist() == [0, 0]
    for row, wanted in enumerate(shares):
        possible = merge.table[0, row, 2] < INFEASIBLE
        assert possible == (wanted is not None)
        if wanted is not None:
            assert merge.table[0, row, 2] == sum(table[0, child, count] for child, count in wanted.items())
            assert dict(merge.take_apart(row, 2)) == wanted
