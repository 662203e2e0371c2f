"""Counting over time: the sums equal a slow integral, second by second."""

from __future__ import annotations

from collections import Counter
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.model.quotas.quota_history import HOURS, KINDS, day_of, start_of
from scheduler_core.quota.history_counter import (
    DayColumns,
    HistoryCounter,
    QuotaRates,
    add_columns,
    full_columns,
    rates_of,
)
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.lending import balance
from tests.support.builders import make_quota

MIDNIGHT = start_of(date(2026, 3, 1))
AMOUNTS = st.integers(0, 9)
RATES = st.builds(QuotaRates, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, st.none() | AMOUNTS)
KEYS = st.sampled_from([("a", "cpu"), ("a", "memory"), ("b", "cpu")])
STEPS = st.lists(
    st.tuples(
        st.integers(0, 4000), st.sampled_from(["change", "settle", "pause"]), st.dictionaries(KEYS, RATES)
    ),
    max_size=12,
)


@given(steps=STEPS)
def test_sums_are_those_of_a_slow_integral(
    steps: list[tuple[int, str, dict[tuple[str, str], QuotaRates]]],
) -> None:
    days: dict[date, DayColumns] = {}
    counter = HistoryCounter(lambda day: days.setdefault(day, {}))
    second = MIDNIGHT - 6000
    counter.resume(second)
    rates: dict[tuple[str, str], QuotaRates] = {}
    slow: Counter[tuple[date, str, str, str, int]] = Counter()
    for length, what, new in [*steps, (10, "settle", {})]:
        for moment in range(second, second + length):
            for (namespace, name), rate in rates.items():
                limit = rate.max
                for kind, value in zip(KINDS, (1, *rate[:5], limit or 0, limit is None), strict=True):
                    hour = moment % 86_400 // 3600
                    slow[day_of(moment), namespace, name, kind, hour] += int(value)
        second += length
        if what == "change":
            rates = new
            counter.change(rates, second)
        elif what == "settle":
            counter.settle(second)
        else:
            counter.pause(second)
            counter.resume(second)
            rates = {}
    found = {
        (day, namespace, name, kind, hour): value
        for day, columns in days.items()
        for namespace, of_quota in columns.items()
        for name, series in of_quota.items()
        for kind, values in series.items()
        for hour, value in enumerate(values)
        if value
    }
    assert found == {key: value for key, value in slow.items() if value}
    totals: Counter[tuple[str, str, str]] = Counter()
    for (_, namespace, name, kind, _), value in found.items():
        if kind in ("used", "borrowed", "lent", "waiting"):
            totals[namespace, name, kind] += value
    assert {key: value for key, value in counter.totals.items() if value} == totals


def test_time_that_goes_back_counts_nothing() -> None:
    columns: DayColumns = {}
    counter = HistoryCounter(lambda day: columns)
    counter.resume(MIDNIGHT)
    counter.change({("a", "cpu"): QuotaRates(used=2)}, MIDNIGHT)
    for second in (10, 5, 0, 10, 12):
        counter.settle(MIDNIGHT + second)
    assert columns["a"]["cpu"]["used"][0] == 24


def test_rates_are_of_what_min_or_max_names_or_is_borrowed() -> None:
    ledger = QuotaLedger()
    ledger.put_quota(make_quota("a/q").min(cpu=2).max(cpu=4).obj())
    ledger.put_quota(make_quota("b/q").min(memory=8).obj())
    ledger.charge("a", "p", {"cpu": 3000, "memory": 6, "example.com/disk": 1})
    ledger.charge("c", "p", {"cpu": 1000})
    found = rates_of(ledger, {"a": {"cpu": 500}, "b": {"memory": 1}, "c": {"cpu": 1}})
    assert found == {
        ("a", "cpu"): QuotaRates(3000, 1000, 0, 500, 2000, 4000),
        ("a", "memory"): QuotaRates(6, 6, 0, 0, 0, None),
        ("b", "memory"): QuotaRates(0, 0, 6, 1, 8, None),
    }
    assert balance(ledger, "memory").lent == {"b": 6}


def test_columns_are_added_and_taken_away() -> None:
    one = {"a": {"cpu": {"used": [1, 2]}}}
    total = full_columns(one)
    assert len(total["a"]["cpu"]["used"]) == HOURS
    add_columns(total, {"a": {"cpu": {"used": [1]}}, "b": {"cpu": {"lent": [5]}}})
    add_columns(total, one, -1)
    assert total["a"]["cpu"]["used"][:2] == [1, 0]
    assert total["b"]["cpu"]["lent"][0] == 5
