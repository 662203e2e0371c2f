"""The best nodes are followed through every kind of change of a single total."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from scheduler_core.engine.select import Leaders, best_slot


@pytest.mark.parametrize("totals", list(itertools.product((-1, 0, 1), repeat=3)), ids=str)
def test_one_change_of_any_kind_is_followed(totals: tuple[int, ...]) -> None:
    """Every slot gets every total, lower, equal and higher ones, after the best was asked for."""
    for slot, value in itertools.product(range(3), (-1, 0, 1, 2)):
        array = np.array(totals, dtype=np.int64)
        leaders = Leaders(array)
        leaders.best(0)
        leaders.set(slot, value)
        assert [leaders.best(start) for start in range(3)] == [best_slot(array, start) for start in range(3)]


def test_two_changes_are_followed() -> None:
    changes = list(itertools.product(range(2), (-1, 0, 1)))
    for totals in itertools.product((0, 1), repeat=3):
        for pair in itertools.product(changes, repeat=2):
            array = np.array(totals, dtype=np.int64)
            leaders = Leaders(array)
            for slot, value in pair:
                leaders.best(slot)
                leaders.set(slot, value)
            assert [leaders.best(start) for start in range(3)] == [
                best_slot(array, start) for start in range(3)
            ]
