"""Growth of columns."""

from __future__ import annotations

import numpy as np

from scheduler_core.arrays.growth import longer


def test_a_longer_column_keeps_values_and_type_and_has_zeros_behind_them() -> None:
    column = np.array([[1, 2], [3, 4]], dtype=np.int32)
    grown = longer(column, 3)
    assert grown.dtype == np.int32
    assert grown.tolist() == [[1, 2, 0], [3, 4, 0]]


def test_flags_behind_a_longer_column_are_not_set() -> None:
    assert longer(np.array([True]), 3).tolist() == [True, False, False]
