"""Quantities for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_plugin.render.quantity_text import human
from scheduler_core.model.quantity import parse_resource

GI = 1 << 30


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 500, "500m"),
        ("cpu", 4000, "4"),
        ("cpu", 4500, "4500m"),
        ("memory", 0, "0"),
        ("memory", 1023, "1023"),
        ("memory", 1536 << 20, "1.5Gi"),
        ("memory", 20 * GI, "20Gi"),
        ("memory", 2 * GI - 1, "1.99Gi"),
        ("memory", 1000 << 20, "1000Mi"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("nvidia.com/gpu", 8, "8"),
        ("pods", 12000, "12000"),
    ],
)
def test_values_read_in_the_largest_unit_that_they_fill(resource: str, value: int, text: str) -> None:
    assert human(resource, value) == text


@given(st.integers(0, 2**62))
def test_bytes_are_never_shown_larger_nor_off_by_a_percent_of_their_unit(value: int) -> None:
    shown = parse_resource("memory", human("memory", value), rounding="down")
    unit = 1 << (max(0, value.bit_length() - 1) // 10 * 10)
    assert shown <= value < shown + unit // 100 + 2
