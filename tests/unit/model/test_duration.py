"""Go durations: parsing, formatting, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.model.duration import format_duration, parse_duration

TEXTS: list[tuple[str, float]] = [
    ("0", 0.0),
    ("15s", 15.0),
    ("1h30m", 5400.0),
    ("250ms", 0.25),
    ("1.5h", 5400.0),
    (".5s", 0.5),
    ("1.s", 1.0),
    ("-2s", -2.0),
    ("+2m", 120.0),
    ("100us", 0.0001),
    ("7µs", 0.000007),
]


@pytest.mark.parametrize(("text", "seconds"), TEXTS)
def test_go_durations_are_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-", "15", "s", "1d", "1 s", "1s ", "1s2", "1e3s", "--1s", "3000000h"])
def test_other_text_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


WRITTEN = [(0, "0s"), (15, "15s"), (90, "1m30s"), (7200, "2h0m0s"), (0.25, "250ms"), (0.0015, "1.5ms")]
WRITTEN += [(-2.5, "-2.5s"), (3e-6, "3µs"), (2e-9, "2ns")]


@pytest.mark.parametrize(("seconds", "text"), WRITTEN)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_a_written_value_reads_back(microseconds: int) -> None:
    seconds = microseconds / 1_000_000
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12)
