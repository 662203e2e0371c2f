"""Resource-hours and costs: exact, by whole hours, and never more than was measured."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.answers.showback import (
    Period,
    decimal_text,
    hourly_course,
    showback,
    showback_document,
)
from scheduler_core.model.quotas.quota_history import (
    HOUR_SECONDS,
    HourSums,
    Payload,
    QuotaHistoryDay,
    encode_day,
    parse_day,
    start_of,
)

DAY = date(2026, 1, 1)
NOON = start_of(DAY) + 12 * HOUR_SECONDS
GPU = "nvidia.com/gpu"


def day(number: int = 1, **hours: list[int]) -> QuotaHistoryDay:
    """A day of team-a's GPUs; the hours of each kind from midnight."""
    when = date(2026, 1, number)
    return QuotaHistoryDay(when, start_of(when), "me", {"team-a": {GPU: hours}})


def no_price(namespace: str, resource: str) -> Fraction | None:
    return None


def test_hours_of_a_period_are_summed_and_others_are_not() -> None:
    found = day(measured=[3600, 3600, 1800], used=[7200, 3600, 3600], borrowed=[0, 3600])
    period = Period(start_of(DAY) + HOUR_SECONDS, NOON)
    (row,) = showback([found], period, "team", no_price)
    assert row.sums == HourSums(measured=5400, used=7200, borrowed=3600)
    assert (row.hours("used"), row.measured, row.cost) == (2, Fraction(3, 2), None)


def test_days_are_rows_of_their_own_and_one_row_together() -> None:
    days = [day(1, measured=[3600], used=[3600]), day(2, measured=[3600], used=[7200])]
    period = Period(start_of(DAY), start_of(date(2026, 1, 3)))
    by_day = showback(days, period, "day", no_price)
    assert [(row.day, row.hours("used")) for row in by_day] == [(date(2026, 1, 1), 1), (date(2026, 1, 2), 2)]
    (together,) = showback(days, period, "team", no_price)
    assert (together.day, together.hours("used")) == (None, 3)


@pytest.mark.parametrize(
    ("resource", "amount", "hours"),
    [("cpu", 1500, "1.5"), ("memory", 3 << 30, "3"), (GPU, 4, "4"), ("ephemeral-storage", 1 << 29, "0.5")],
)
def test_units_are_cores_gib_and_pieces(resource: str, amount: int, hours: str) -> None:
    sums = {"measured": [3600], "used": [amount * 3600]}
    found = QuotaHistoryDay(DAY, 0, "", {"team-a": {resource: sums}})
    rows = showback([found], Period(start_of(DAY), NOON), "team", lambda *_: Fraction("0.1"))
    (entry,) = showback_document(rows, Period(start_of(DAY), NOON), "team", "EUR")["rows"]
    assert entry["used"] == hours
    assert entry["cost"] == decimal_text(Fraction(hours) / 10)


def test_other_namespaces_are_left_out() -> None:
    rows = showback(
        [day(measured=[1], used=[1])], Period(start_of(DAY), NOON), "team", no_price, lambda name: name == "b"
    )
    assert rows == []


def test_a_course_has_gaps_where_nothing_was_measured() -> None:
    found = day(
        measured=[3600, 0, 1800],
        used=[7200, 0, 1800],
        min=[7200, 0, 3600],
        max=[14400],
        unlimited=[0, 0, 1800],
    )
    course = hourly_course([found], Period(start_of(DAY), start_of(DAY) + 4 * HOUR_SECONDS), "team-a", GPU)
    assert course.used == (2.0, None, 1.0, None)
    assert course.min == (2.0, None, 2.0, None)
    assert course.max == (4.0, None, None, None)


def test_a_period_begins_with_a_whole_hour() -> None:
    assert Period.back(NOON + 100, 3600) == Period(NOON - HOUR_SECONDS, NOON + 100)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(1, 3), "0.333333"),
        (Fraction(2, 3), "0.666667"),
        (Fraction(25, 2), "12.5"),
        (Fraction(10**12), "1000000000000"),
        (Fraction(1, 10**7), "0"),
    ],
)
def test_decimals(value: Fraction, text: str) -> None:
    assert decimal_text(value) == text


_hours = st.lists(st.integers(0, 3600), max_size=24)


@given(measured=_hours, rates=st.lists(st.integers(0, 9), min_size=24, max_size=24))
def test_a_day_survives_its_text_and_no_hour_is_lost(measured: list[int], rates: list[int]) -> None:
    sums = {"measured": measured, "used": [seconds * rates[i] for i, seconds in enumerate(measured)]}
    written = QuotaHistoryDay(DAY, NOON, "me", {"team-a": {GPU: sums}})
    found = parse_day(Payload(*encode_day(written)), DAY)
    assert all(found.hour("team-a", GPU, hour) == written.hour("team-a", GPU, hour) for hour in range(24))
    rows = showback([found], Period(start_of(DAY), start_of(date(2026, 1, 2))), "team", no_price)
    assert sum(row.sums.used for row in rows) == sum(sums["used"])


def test_days_and_namespaces_outside_of_what_is_asked_have_no_row() -> None:
    days = [day(1, measured=[3600]), day(2, measured=[3600])]
    second = start_of(date(2026, 1, 2))
    by_day = showback(days, Period(second, second + HOUR_SECONDS), "day", no_price)
    assert [row.day for row in by_day] == [date(2026, 1, 2)]
    assert showback(days, Period(second + 86_400, second + 90_000), "team", no_price) == []
    assert showback(days, Period(start_of(DAY), NOON), "team", no_price, lambda name: name == "team-b") == []
