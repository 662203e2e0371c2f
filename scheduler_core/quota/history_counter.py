"""Adds up what quotas use over time: amounts times seconds, per hour, quota and resource (docs/history.md).

What a quota uses is constant between two changes. A series is brought up to date only when its own amounts
change or somebody reads it, so a change costs no more than the quotas that it concerns.

Time counts in whole seconds, and only forwards: a second that was counted is never counted again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Final, NamedTuple

from scheduler_core.model.names import BORROWED, LENT, USED, WAITING
from scheduler_core.model.quotas.quota_history import (
    DAY_SECONDS,
    HOUR_SECONDS,
    HOURS,
    KINDS,
    Columns,
    day_of,
    start_of,
)
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.lending import named_resources, shares

# Per namespace and resource the columns of one day, each with all hours.
DayColumns = dict[str, dict[str, dict[str, list[int]]]]
_NOTHING: Final[ResourceList] = {}


class QuotaRates(NamedTuple):
    """What one quota does with one resource at one time. `max` is None for no limit."""

    used: int = 0
    borrowed: int = 0
    lent: int = 0
    waiting: int = 0
    min: int = 0
    max: int | None = None


# What the metric counts, in the order of QuotaRates.
COUNTED: Final = (USED, BORROWED, LENT, WAITING)
SeriesKey = tuple[str, str]


def rates_of(ledger: QuotaLedger, waiting: Mapping[str, ResourceList]) -> dict[SeriesKey, QuotaRates]:
    """The rates by namespace and resource: of each binding quota what its min or max names or it borrows.

    `waiting` is by namespace what the pods that wait for a node ask for.
    """
    balance = shares(ledger, named_resources(ledger))
    found: dict[SeriesKey, QuotaRates] = {}
    for quota in ledger.quotas():
        namespace = quota.namespace
        used, asked = ledger.used(namespace), waiting.get(namespace, _NOTHING)
        for name, share in balance.items():
            over = share.borrowed.get(namespace, 0)
            if over or name in quota.min or name in quota.max:
                found[namespace, name] = QuotaRates(
                    used.get(name, 0),
                    over,
                    share.lent.get(namespace, 0),
                    asked.get(name, 0),
                    quota.min.get(name, 0),
                    quota.max.get(name),
                )
    return found


class HistoryCounter:
    """Counts rates over time into the columns that `columns` gives for a day.

    `at` is the second up to which everything counts once `settle` was called with it; None while paused.
    `totals` are the sums since the start of the process, by namespace, resource and kind.
    """

    def __init__(self, columns: Callable[[date], DayColumns]) -> None:
        self._columns = columns
        self._rates: dict[SeriesKey, tuple[QuotaRates, int]] = {}
        self.at: int | None = None
        self.totals: dict[tuple[str, str, str], int] = {}

    def resume(self, second: int) -> None:
        """Count from a second on; rates follow with `change`."""
        self._rates.clear()
        self.at = second

    def pause(self, second: int) -> None:
        """Count up to a second, and no further until `resume`."""
        self.settle(second)
        self._rates.clear()
        self.at = None

    def change(self, rates: Mapping[SeriesKey, QuotaRates], second: int) -> None:
        """From a second on other rates hold."""
        if self.at is None:
            raise ValueError("the counter is paused")
        second = self.at = max(self.at, second)
        for key in self._rates.keys() - rates.keys():
            self._add(key, *self._rates.pop(key), second)
        for key, new in rates.items():
            old = self._rates.get(key)
            if old is None or old[0] != new:
                if old is not None:
                    self._add(key, *old, second)
                self._rates[key] = (new, second)

    def settle(self, second: int) -> None:
        """Count everything up to a second."""
        if self.at is None:
            return
        second = self.at = max(self.at, second)
        for key, (rates, since) in self._rates.items():
            if since < second:
                self._add(key, rates, since, second)
                self._rates[key] = (rates, second)

    def _add(self, key: SeriesKey, rates: QuotaRates, since: int, until: int) -> None:
        namespace, name = key
        for kind, rate in zip(COUNTED, rates[: len(COUNTED)], strict=True):
            if rate:
                total = (namespace, name, kind)
                self.totals[total] = self.totals.get(total, 0) + rate * (until - since)
        while since < until:
            day = day_of(since)
            first = start_of(day)
            hour = (since - first) // HOUR_SECONDS
            end = min(until, first + (hour + 1) * HOUR_SECONDS)
            _count(_of_series(self._columns(day), namespace, name), hour, rates, end - since)
            since = end


def _of_series(columns: DayColumns, namespace: str, name: str) -> dict[str, list[int]]:
    of_quota = columns.setdefault(namespace, {})
    found = of_quota.get(name)
    if found is None:
        found = of_quota[name] = {}
    return found


def _count(series: dict[str, list[int]], hour: int, rates: QuotaRates, seconds: int) -> None:
    limit = rates.max
    sums = (1, *rates[:5], 0 if limit is None else limit, int(limit is None))
    for kind, rate in zip(KINDS, sums, strict=True):
        if rate:
            values = series.get(kind)
            if values is None:
                values = series[kind] = [0] * HOURS
            values[hour] += rate * seconds


def midnight_after(day: date) -> int:
    """The end of a UTC day, in seconds since the epoch."""
    return start_of(day) + DAY_SECONDS


def full_columns(quotas: Mapping[str, Mapping[str, Columns]]) -> DayColumns:
    """A copy of the columns of a day that can be counted into."""
    return {
        namespace: {
            name: {kind: [*values, *[0] * (HOURS - len(values))] for kind, values in columns.items()}
            for name, columns in of_quota.items()
        }
        for namespace, of_quota in quotas.items()
    }


def add_columns(total: DayColumns, more: Mapping[str, Mapping[str, Columns]], sign: int = 1) -> None:
    """Add the columns of a day to others in their place, or take them away with a sign of -1."""
    for namespace, of_quota in more.items():
        for name, columns in of_quota.items():
            series = _of_series(total, namespace, name)
            for kind, values in columns.items():
                sums = series.setdefault(kind, [0] * HOURS)
                for hour, value in enumerate(values):
                    sums[hour] += sign * value
