"""The best node is the same by a scan of all totals and by the slots that are followed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.engine.scores.select import BestSlots, best_slot

TOTALS = st.lists(st.integers(-1, 3), min_size=1, max_size=8)
# A slot (modulo their number) gets a total; then the best is asked for from a start.
CHANGES = st.lists(st.tuples(st.integers(0, 7), st.integers(-1, 4), st.integers(0, 7)), max_size=30)


@given(TOTALS, CHANGES)
def test_leaders_are_followed_through_every_change(
    totals: list[int], changes: list[tuple[int, int, int]]
) -> None:
    total = np.array(totals, dtype=np.int64)
    leaders = BestSlots(total)
    for slot, value, start in changes:
        leaders.set(slot % len(totals), value)
        assert leaders.best(start % len(totals)) == best_slot(total, start % len(totals))
        assert total[slot % len(totals)] == value


def test_without_a_node_there_is_no_leader() -> None:
    assert BestSlots(np.zeros(0, dtype=np.int64)).best(0) == -1


@pytest.mark.parametrize("totals", list(itertools.product((-1, 0, 1), repeat=3)), ids=str)
def test_one_change_of_any_kind_is_followed(totals: tuple[int, ...]) -> None:
    """Every slot gets every total, lower, equal and higher ones, after the best was asked for."""
    for slot, value in itertools.product(range(3), (-1, 0, 1, 2)):
        array = np.array(totals, dtype=np.int64)
        leaders = BestSlots(array)
        leaders.best(0)
        leaders.set(slot, value)
        assert [leaders.best(start) for start in range(3)] == [best_slot(array, start) for start in range(3)]


def test_two_changes_are_followed() -> None:
    changes = list(itertools.product(range(2), (-1, 0, 1)))
    for totals in itertools.product((0, 1), repeat=3):
        for pair in itertools.product(changes, repeat=2):
            array = np.array(totals, dtype=np.int64)
            leaders = BestSlots(array)
            for slot, value in pair:
                leaders.best(slot)
                leaders.set(slot, value)
            assert [leaders.best(start) for start in range(3)] == [
                best_slot(array, start) for start in range(3)
            ]
