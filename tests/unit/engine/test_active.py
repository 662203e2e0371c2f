"""The queue of active units gives them out in order, however pushes and pops interleave."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.engine.active import ActiveQueue, Entry

# A number is a push with that key; None is a pop.
STEPS = st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=120)


@given(st.lists(st.integers(0, 9), max_size=40), STEPS)
def test_entries_leave_as_from_a_heap(first: list[int], steps: list[int | None]) -> None:
    queue, heap = ActiveQueue(), []
    for number, step in enumerate([*first, *steps]):
        if step is not None:
            entry: Entry = ((step,), number, f"unit-{number}")
            queue.push(entry)
            heapq.heappush(heap, entry)
        elif heap:
            assert queue.pop() == heapq.heappop(heap)
        assert len(queue) == len(heap)
    assert [queue.pop() for _ in range(len(heap))] == sorted(heap)
