"""The best node is the same whether all totals are looked at or the best ones are followed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.engine.select import Leaders, best_slot

TOTALS = st.lists(st.integers(-1, 3), min_size=1, max_size=8)
# A slot (modulo their number) gets a total; then the best is asked for from a start.
CHANGES = st.lists(st.tuples(st.integers(0, 7), st.integers(-1, 4), st.integers(0, 7)), max_size=30)


@given(TOTALS, CHANGES)
def test_leaders_are_followed_through_every_change(
    totals: list[int], changes: list[tuple[int, int, int]]
) -> None:
    total = np.array(totals, dtype=np.int64)
    leaders = Leaders(total)
    for slot, value, start in changes:
        leaders.set(slot % len(totals), value)
        assert leaders.best(start % len(totals)) == best_slot(total, start % len(totals))
        assert total[slot % len(totals)] == value


def test_nobody_leads_where_there_is_no_node() -> None:
    assert Leaders(np.zeros(0, dtype=np.int64)).best(0) == -1
