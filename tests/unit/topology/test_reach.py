"""Bit sets of possible counts: sums, progressions, and sets of children that need no sums."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.topology.reach import progression, sumset

# Few numbers, or long runs of them.
MEMBERS = st.sets(st.integers(0, 40), max_size=8) | st.tuples(
    st.integers(0, 9), st.integers(0, 12), st.sets(st.integers(0, 40), max_size=3)
).map(lambda drawn: {*range(drawn[0], drawn[0] + drawn[1]), *drawn[2]})


def bits(members: set[int]) -> int:
    return sum(1 << member for member in members)


@given(MEMBERS, MEMBERS)
def test_a_sumset_holds_every_sum_of_two_members_and_nothing_else(left: set[int], right: set[int]) -> None:
    assert sumset(bits(left), bits(right)) == bits({one + other for one in left for other in right})


@given(st.integers(0, 30), st.integers(0, 60), st.integers(1, 7))
def test_a_progression_is_a_range_with_a_step(lowest: int, highest: int, step: int) -> None:
    assert progression(lowest, highest, step) == bits(set(range(lowest, highest + 1, step)))
