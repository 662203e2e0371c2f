"""What teams used, borrowed, lent and waited for over time, and what that costs (docs/history.md).

All amounts are exact: amounts times seconds as integers, hours and costs as fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, Final, Literal

import msgspec

from scheduler_core.model.quantity import is_bytes
from scheduler_core.model.quotas.quota_history import (
    HOUR_SECONDS,
    HOURS,
    HourSums,
    QuotaHistoryDay,
    start_of,
)
from scheduler_core.model.timestamps import format_time

By = Literal["team", "day"]
# The price of a resource in a namespace, per unit and hour; None where there is none.
PriceOf = Callable[[str, str], Fraction | None]

_GIB: Final = 1 << 30
_MILLI: Final = 1000
_DECIMALS: Final = 6
_NO_SUMS: Final = HourSums()


class ShowbackRow(msgspec.Struct, frozen=True):
    """The sums of one namespace and resource, of the whole period or of one day; amounts times seconds.

    `price` is that of a unit for an hour, None where there is none.
    """

    namespace: str
    resource: str
    sums: HourSums
    day: date | None = None
    price: Fraction | None = None

    def hours(self, kind: str) -> Fraction:
        """The resource-hours of a kind of sum: core-hours, GiB-hours, GPU-hours."""
        return resource_hours(self.resource, getattr(self.sums, kind))

    @property
    def measured(self) -> Fraction:
        """The hours that were measured."""
        return Fraction(self.sums.measured, HOUR_SECONDS)

    @property
    def cost(self) -> Fraction | None:
        """The price of what was used."""
        return None if self.price is None else self.price * self.hours("used")


class Period(msgspec.Struct, frozen=True):
    """Whole hours, from `since` (the start of its hour) to `until`, in seconds since the epoch."""

    since: int
    until: int

    @classmethod
    def back(cls, now: float, seconds: float) -> Period:
        """The period that ends now; it begins with a whole hour."""
        end = int(now)
        return cls(int(end - seconds) // HOUR_SECONDS * HOUR_SECONDS, end)

    def covers(self, hour: int) -> bool:
        """Whether an hour, by its first second, is part of the period."""
        return self.since <= hour < self.until


def unit_of(resource: str) -> int:
    """How many of the resource's own units are one of those that hours are told in."""
    return _GIB if is_bytes(resource) else _MILLI if resource == "cpu" else 1


def resource_hours(resource: str, sums: int) -> Fraction:
    """Resource-hours of an amount times seconds."""
    return Fraction(sums, unit_of(resource) * HOUR_SECONDS)


def showback(
    days: Iterable[QuotaHistoryDay],
    period: Period,
    by: By,
    price_of: PriceOf,
    namespaces: Callable[[str], bool] = lambda name: True,
) -> list[ShowbackRow]:
    """The rows of some namespaces: by namespace and resource, with `day` also by day, the days first."""
    found: dict[tuple[date | None, str, str], HourSums] = {}
    for day in days:
        hours = [hour for hour in range(HOURS) if period.covers(day.start + hour * HOUR_SECONDS)]
        for namespace, resources in day.quotas.items():
            if not hours or not namespaces(namespace):
                continue
            for resource in resources:
                key = (day.day if by == "day" else None, namespace, resource)
                sums = [found.get(key, _NO_SUMS), *(day.hour(namespace, resource, hour) for hour in hours)]
                found[key] = HourSums(*(sum(values) for values in zip(*sums, strict=True)))
    return [
        ShowbackRow(namespace, resource, found[key], key[0], price_of(namespace, resource))
        for key in sorted(found, key=lambda item: (item[0] or date.min, item[1], item[2]))
        for _, namespace, resource in [key]
        if found[key].measured
    ]


def showback_document(
    rows: Sequence[ShowbackRow], period: Period, by: By, currency: str = ""
) -> dict[str, Any]:
    """The rows for JSON and YAML; amounts are resource-hours as decimal numbers in strings."""
    return {
        "by": by,
        "since": format_time(period.since),
        "until": format_time(period.until),
        "hours": decimal_text(Fraction(period.until - period.since, HOUR_SECONDS)),
        **({"currency": currency} if currency else {}),
        "rows": [_row(row) for row in rows],
    }


def _row(row: ShowbackRow) -> dict[str, Any]:
    hours = {kind: decimal_text(row.hours(kind)) for kind in ("used", "borrowed", "lent", "waiting")}
    cost = row.cost
    return {
        **({"day": row.day.isoformat()} if row.day is not None else {}),
        "namespace": row.namespace,
        "resource": row.resource,
        **hours,
        "measuredHours": decimal_text(row.measured),
        **({} if row.price is None else {"price": decimal_text(row.price)}),
        **({} if cost is None else {"cost": decimal_text(cost)}),
    }


def decimal_text(value: Fraction, decimals: int = _DECIMALS) -> str:
    """A decimal number with at most so many decimals, rounded half up; `12.5`, `0`."""
    scaled = int(value * 10**decimals + Fraction(1, 2))
    whole, rest = divmod(scaled, 10**decimals)
    return f"{whole}.{rest:0{decimals}d}".rstrip("0").rstrip(".") if decimals else str(whole)


class HourlyCourse(msgspec.Struct, frozen=True):
    """Averages per hour of one namespace and resource, in the unit of hours; None where nothing was measured.

    `begin` is the first hour, in seconds since the epoch. `max` is also None for hours without a max.
    """

    begin: int
    used: tuple[float | None, ...]
    borrowed: tuple[float | None, ...]
    lent: tuple[float | None, ...]
    waiting: tuple[float | None, ...]
    min: tuple[float | None, ...]
    max: tuple[float | None, ...]


def hourly_course(
    days: Iterable[QuotaHistoryDay], period: Period, namespace: str, resource: str
) -> HourlyCourse:
    """The course of a quota over the hours of a period."""
    known: Mapping[date, QuotaHistoryDay] = {day.day: day for day in days}
    hours = range(period.since, period.until, HOUR_SECONDS)
    sums = [_hour(known, hour, namespace, resource) for hour in hours]
    unit = unit_of(resource)

    def averages(kind: str) -> tuple[float | None, ...]:
        return tuple(getattr(item, kind) / item.measured / unit if item.measured else None for item in sums)

    limited = tuple(
        item.max / limited / unit if (limited := item.measured - item.unlimited) > 0 else None
        for item in sums
    )
    return HourlyCourse(
        period.since,
        averages("used"),
        averages("borrowed"),
        averages("lent"),
        averages("waiting"),
        averages("min"),
        limited,
    )


def _hour(known: Mapping[date, QuotaHistoryDay], hour: int, namespace: str, resource: str) -> HourSums:
    day = date(1970, 1, 1) + timedelta(seconds=hour)
    found = known.get(day)
    if found is None:
        return _NO_SUMS
    return found.hour(namespace, resource, (hour - start_of(day)) // HOUR_SECONDS)
