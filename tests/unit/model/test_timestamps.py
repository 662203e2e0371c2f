"""RFC 3339 timestamps: formatting, parsing, time zones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.errors import ModelError
from scheduler_core.model.timestamps import epoch, format_micro_time, format_time, parse_time

NEW_YEAR = 1_767_225_600


def test_timestamps() -> None:
    assert format_time(NEW_YEAR + 0.9) == "2026-01-01T00:00:00Z"
    assert format_micro_time(NEW_YEAR + 0.25) == "2026-01-01T00:00:00.250000Z"


@given(st.integers(0, 4 * 10**15))
def test_a_written_value_reads_back(microseconds: int) -> None:
    seconds = microseconds / 1e6
    assert parse_time(format_micro_time(seconds)) == pytest.approx(seconds, abs=1e-6)
    assert parse_time(format_time(seconds)) == int(seconds)


def test_offsets_and_zones() -> None:
    assert parse_time("2026-01-01T02:00:00+02:00") == NEW_YEAR
    assert parse_time("2026-01-01T00:00:00", zone=UTC) == NEW_YEAR
    assert parse_time("2026-01-01T02:00:00+02:00", zone=UTC) == NEW_YEAR


@pytest.mark.parametrize("text", ["", "soon", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
def test_other_text_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|isoformat|month"):
        parse_time(text)


def test_decoded_timestamps_need_a_zone() -> None:
    assert epoch(None) is None
    assert epoch(datetime(2026, 1, 1, tzinfo=UTC)) == NEW_YEAR
    with pytest.raises(ModelError, match="has no time zone"):
        epoch(datetime(2026, 1, 1))
