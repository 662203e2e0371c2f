"""The resource index, interning, and change logs."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.arrays import changes
from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.arrays.index import MAX_ROWS, ResourceIndex
from scheduler_core.arrays.intern import ABSENT, Interner, LabelColumn


def test_the_index_only_grows_and_rows_keep_their_meaning() -> None:
    index = ResourceIndex()
    assert index.names == ["cpu", "memory", "ephemeral-storage", "pods"]
    assert not index.ensure({"cpu": 1})
    assert index.ensure({"a.b/x": 1})
    assert index.row("a.b/x") == 4
    assert index.vector({"a.b/x": 7, "cpu": 2, "unknown": 9}).tolist() == [2, 0, 0, 0, 7]


def test_resources_beyond_the_last_row_get_none() -> None:
    index = ResourceIndex()
    index.ensure({f"a.b/r{i}": 1 for i in range(100)})
    assert len(index) == MAX_ROWS
    assert index.row("a.b/r99") is None


def test_equal_values_become_the_same_integer() -> None:
    interner: Interner[str] = Interner()
    assert [interner.id(value) for value in "abca"] == [0, 1, 2, 0]
    assert (interner.find("c"), interner.find("x"), len(interner)) == (2, ABSENT, 3)


def test_a_label_column_keeps_its_values_when_it_grows() -> None:
    column = LabelColumn(2)
    column.set(0, "zone-1")
    column.grow(4)
    column.set(3, "zone-1")
    column.set(0, None)
    np.testing.assert_array_equal(column.ids, [ABSENT, ABSENT, ABSENT, 0])


def test_a_reader_gets_what_changed_since_it_looked() -> None:
    log = ChangeLog()
    seen = log.position
    log.append(3)
    log.append(3)
    assert log.since(seen) == [3, 3]
    assert log.since(log.position) == []


def test_a_reader_that_is_too_far_behind_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEEP", 4)
    log = ChangeLog()
    for slot in range(20):
        log.append(slot)
    assert log.position == 20
    assert log.since(0) is None
    kept = log.since(17)
    assert kept == [17, 18, 19]
