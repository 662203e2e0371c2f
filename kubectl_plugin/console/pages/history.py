"""History: use against min and max, resource-hours per team and day, and what was taken for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from kubectl_plugin.answers.history import reclaims_document
from kubectl_plugin.answers.history_showback import csv_text
from kubectl_plugin.cluster.quota_history import PriceList, prices_for
from kubectl_plugin.cluster.quota_rows import resource_order
from kubectl_plugin.console.access.viewer import Refused
from kubectl_plugin.console.drawing.colors import QuotaColors
from kubectl_plugin.console.drawing.course import Course, course
from kubectl_plugin.console.pages.page import Content, PageRequest, Services
from kubectl_plugin.render.quantity_text import human
from scheduler_core.answers.history import Reclaim
from scheduler_core.answers.showback import (
    By,
    HourlyCourse,
    Period,
    ShowbackRow,
    decimal_text,
    hourly_course,
    showback,
    showback_document,
)
from scheduler_core.model.quantity import is_bytes
from scheduler_core.model.quotas.quota_history import QuotaHistoryDay
from scheduler_core.model.timestamps import format_time
from scheduler_core.printing.age import human_duration

# The periods that can be chosen, in seconds.
PERIODS: Final = {"1d": 86_400.0, "7d": 7 * 86_400.0, "35d": 35 * 86_400.0}
_USUAL: Final = "7d"
_MOST_ROWS: Final = 400
_MOST_RECLAIMS: Final = 100
_DECIMALS: Final = 2


class HistoryPage:
    """What happened."""

    name = "history"
    path = "/history"
    title = "History"
    kinds = frozenset({"elasticquotas"})
    posts = False

    def version(self, services: Services) -> object:
        """It is read anew every minute."""
        return services.watch.cluster.version_of(self.kinds), services.history.age()

    def content(self, services: Services, request: PageRequest) -> Content:
        """The past of the viewer's namespaces."""
        since = request.params.get("since", _USUAL)
        by: By = "day" if request.params.get("by") == "day" else "team"
        if since not in PERIODS:
            raise Refused(400, f"since={since!r} is not known; known are {', '.join(PERIODS)}")
        past = services.history.past(PERIODS[since])
        with services.watch.cluster.lock:
            price_of = prices_for(services.watch.cluster.quotas.values(), PriceList())
        days, period = past.read.days, past.period
        rows = showback(days, period, by, price_of, request.viewer.sees)
        redactor = request.redactor(services)
        reclaims = [
            msgspec.structs.replace(item, by=redactor.text(item.by), by_quota=redactor.text(item.by_quota))
            for item in past.reclaims
            if request.viewer.sees(item.namespace)
        ]
        chosen, colors = _chosen(rows, request.params), request.colors(services)
        values = {
            "periods": list(PERIODS),
            "params": {"since": since, "by": by, "namespace": chosen[0], "resource": chosen[1]},
            "namespaces": sorted({row.namespace for row in rows}),
            "resources": resource_order({row.resource for row in rows}),
            "chart": _chart(days, period, *chosen, colors.of(chosen[0])) if all(chosen) else None,
            "color": colors.of(chosen[0]),
            "rows": [_cells(row, colors) for row in rows[:_MOST_ROWS]],
            "more": max(0, len(rows) - _MOST_ROWS),
            "priced": any(row.price is not None for row in rows),
            "reclaims": list(_reclaims(reclaims, colors)),
            "more_reclaims": max(0, len(reclaims) - _MOST_RECLAIMS),
        }
        lacks = tuple(redactor.text(words) for words in past.lacks)
        return Content(
            partial(_document, rows, period, by, reclaims), values, lacks, csv=partial(csv_text, rows)
        )


def _document(
    rows: Sequence[ShowbackRow], period: Period, by: By, reclaims: Sequence[Reclaim]
) -> dict[str, Any]:
    """The documents of `history --by` and of `history`."""
    return {"use": showback_document(rows, period, by), **reclaims_document(reclaims)}


def _chosen(rows: Sequence[ShowbackRow], params: Any) -> tuple[str, str]:
    """The namespace and the resource of the chart: those that were asked for, else of the largest use."""
    known = {(row.namespace, row.resource): row for row in rows}
    namespace, resource = params.get("namespace", ""), params.get("resource", "")
    fitting = [key for key in known if namespace in ("", key[0]) and resource in ("", key[1])]
    if not fitting:
        return "", ""

    def rank(key: tuple[str, str]) -> tuple[bool, int, tuple[str, str]]:
        # Devices say more than cores and bytes.
        return "/" not in key[1], -known[key].sums.borrowed, key

    return min(fitting, key=rank)


def unit_text(resource: str) -> str:
    """What amounts of a resource are told in."""
    return "GiB" if is_bytes(resource) else "cores" if resource == "cpu" else ""


def _chart(days: Sequence[QuotaHistoryDay], period: Period, namespace: str, resource: str, color: str) -> Any:
    found = hourly_course(days, period, namespace, resource)
    series = [
        Course("used", found.used, "area", color),
        Course("used within min", _within(found), "area", f"{color} own"),
        Course("waiting", _above(found.used, found.waiting), "line", "waiting"),
        Course("min", found.min, "line", "bound-min"),
        Course("max", found.max, "line", "bound-max"),
    ]
    label = f"{namespace}, {resource}: use per hour against min and max"
    return course(series, found.begin, unit_text(resource), label)


def _within(found: HourlyCourse) -> tuple[float | None, ...]:
    pairs = zip(found.used, found.borrowed, strict=True)
    return tuple(None if used is None or over is None else used - over for used, over in pairs)


def _above(base: Sequence[float | None], more: Sequence[float | None]) -> tuple[float | None, ...]:
    """What waits, on top of what is used; nothing where nothing waits."""
    pairs = zip(base, more, strict=True)
    return tuple(None if used is None or not waits else used + waits for used, waits in pairs)


def _cells(row: ShowbackRow, colors: QuotaColors) -> dict[str, Any]:
    hours = [decimal_text(row.hours(kind), _DECIMALS) for kind in ("used", "borrowed", "lent", "waiting")]
    return {
        "day": row.day.isoformat() if row.day is not None else "",
        "namespace": row.namespace,
        "resource": row.resource,
        "unit": unit_text(row.resource),
        "color": colors.of(row.namespace),
        "hours": hours,
        "measured": human_duration(row.sums.measured),
        "cost": "" if row.cost is None else decimal_text(row.cost, _DECIMALS),
    }


def _reclaims(found: Sequence[Reclaim], colors: QuotaColors) -> Iterator[dict[str, Any]]:
    """The newest first."""
    for item in list(reversed(found))[:_MOST_RECLAIMS]:
        amounts = ", ".join(f"{human(name, value)} {name}" for name, value in sorted(item.amounts.items()))
        yield {
            "time": format_time(item.time),
            "namespace": item.namespace,
            "color": colors.of(item.namespace),
            "amounts": amounts,
            "pods": list(item.pods[:5]),
            "count": item.count,
            "by": item.by,
            "by_quota": item.by_quota,
        }
