"""The order of reprieve, beside the same order by a sort of tuples; and the part of a set that is needed."""

from __future__ import annotations

import random

from scheduler_core.arrays.reprieve import minimal_subset, reprieve_order
from tests.support.every import every_seed


@every_seed(range(20))
def test_the_order_is_by_stage_then_protection_then_importance(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randint(1, 9)
    stage = [rng.randint(-1, 3) for _ in range(size)]
    protected = [rng.random() < 0.5 for _ in range(size)]
    priority, place = [rng.randint(0, 2) for _ in range(size)], rng.sample(range(size), size)
    wanted = sorted(range(size), key=lambda i: (-stage[i], not protected[i], -priority[i], -place[i]))
    assert reprieve_order([place, priority], protected, stage).tolist() == wanted
    assert reprieve_order([place]).tolist() == sorted(range(size), key=lambda i: -place[i])


@every_seed(range(20))
def test_nothing_that_is_left_can_be_spared(seed: int) -> None:
    rng = random.Random(seed)
    amounts = [rng.randint(1, 5) for _ in range(rng.randint(1, 9))]
    need = rng.randint(1, sum(amounts))
    order = rng.sample(range(len(amounts)), len(amounts))
    found = minimal_subset(order, lambda chosen: sum(amounts[i] for i in chosen) >= need)
    total = sum(amounts[i] for i in found)
    assert total >= need
    assert all(total - amounts[i] < need for i in found)
