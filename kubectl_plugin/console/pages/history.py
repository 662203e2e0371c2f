"""History: use against min and max, resource-hours per team and day, and what was taken for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, get_args
from urllib.parse import urlencode

import msgspec

from kubectl_plugin.answers.history import reclaims_document
from kubectl_plugin.answers.history_showback import csv_text
from kubectl_plugin.cluster.quota_history import prices_for, unused_prices
from kubectl_plugin.cluster.quota_rows import resource_order
from kubectl_plugin.console.access.viewer import Refused
from kubectl_plugin.console.cluster.history_reader import Gap
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
from scheduler_core.model.names import FLAVOR_PREFIX
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
# The HTTP status of an answer that something prevents.
_STATUS: Final = {"right": 403, "outage": 503, "damage": 500}


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
        choice = _choice(request.params)
        past = services.history.past(PERIODS[choice.since])
        with services.watch.cluster.lock:
            price_of = prices_for(services.watch.cluster.quotas.values(), services.prices)
        days, period = past.read.days, past.period
        known = showback(days, period, choice.by, price_of, request.viewer.sees)
        rows = [row for row in known if choice.has(row.namespace) and choice.resource in ("", row.resource)]
        redactor = request.redactor(services)
        reclaims = [
            msgspec.structs.replace(item, by=redactor.text(item.by), by_quota=redactor.text(item.by_quota))
            for item in past.reclaims
            if request.viewer.sees(item.namespace) and choice.has(item.namespace)
        ]
        charted, colors = _charted(rows), request.colors(services)
        values = {
            "periods": list(PERIODS),
            "params": msgspec.structs.asdict(choice),
            "query": choice.query,
            "chosen": choice.words,
            "namespaces": sorted({row.namespace for row in known} | {choice.namespace} - {""}),
            "resources": resource_order({row.resource for row in known} | {choice.resource} - {""}),
            "charted": charted,
            "chart": _chart(days, period, *charted, colors.of(charted[0])) if charted is not None else None,
            "color": colors.of(charted[0]) if charted is not None else "",
            "rows": [_cells(row, colors) for row in rows[:_MOST_ROWS]],
            "more": max(0, len(rows) - _MOST_ROWS),
            "currency": services.prices.currency,
            "priced": any(row.price is not None for row in rows),
            "reclaims": list(_reclaims(reclaims, colors)),
            "more_reclaims": max(0, len(reclaims) - _MOST_RECLAIMS),
            # Where something could not be read, that nothing is shown does not mean that there was nothing.
            "use_known": past.use_gap is None,
            "reclaims_known": not past.gaps,
        }
        gaps = [msgspec.structs.replace(gap, problem=redactor.text(gap.problem)) for gap in past.gaps]
        # Others do not see all resources that quotas were measured with.
        unused = unused_prices(services.prices, days) if known and request.viewer.namespaces is None else ""
        lacks = (*dict.fromkeys(gap.problem for gap in gaps), *([unused] if unused else []))

        def document() -> dict[str, Any]:
            # Those of `history --by` and of `history`, and why they lack something.
            use = showback_document(rows, period, choice.by, services.prices.currency)
            return {"use": use, **reclaims_document(reclaims), "lacks": list(lacks)}

        return Content(
            document,
            values,
            lacks,
            current=not past.brief,
            csv=partial(_csv, rows, [gap for gap in gaps if gap.of_use and not gap.stale]),
        )


def _csv(rows: Sequence[ShowbackRow], gaps: Sequence[Gap]) -> str:
    """The rows. Raises Refused where some are missing: a table cannot say so, and would be taken for zero."""
    if gaps:
        raise Refused(_STATUS[gaps[0].cause], "; ".join(dict.fromkeys(gap.problem for gap in gaps)))
    return csv_text(rows)


class _Choice(msgspec.Struct, frozen=True):
    """What the viewer wants to see: the period, the rows, and of which quota and resource; empty: all."""

    since: str
    by: By
    namespace: str
    resource: str

    def has(self, namespace: str) -> bool:
        """Whether a namespace is to be shown."""
        return self.namespace in ("", namespace)

    @property
    def words(self) -> str:
        """What is to be shown, if that is not all."""
        return ", ".join(filter(None, (self.namespace, self.resource)))

    @property
    def query(self) -> str:
        """The parameters of a link to the same choice."""
        return urlencode({name: value for name, value in msgspec.structs.asdict(self).items() if value})


def _choice(params: Mapping[str, str]) -> _Choice:
    """The choice in the parameters of a URL. Raises Refused for values that are not known."""
    since, by = params.get("since", _USUAL), params.get("by", "team")
    for name, value, known in (("since", since, tuple(PERIODS)), ("by", by, get_args(By))):
        if value not in known:
            raise Refused(400, f"{name}={value!r} is not known; known are {', '.join(known)}")
    rows: By = "day" if by == "day" else "team"
    return _Choice(since, rows, params.get("namespace", ""), params.get("resource", ""))


def _charted(rows: Sequence[ShowbackRow]) -> tuple[str, str] | None:
    """The namespace and the resource of the chart: the largest use of those in the table."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        borrowed, used = found.get((row.namespace, row.resource), (0, 0))
        sums = borrowed + row.sums.borrowed, used + row.sums.used
        found[row.namespace, row.resource] = sums

    def rank(key: tuple[str, str]) -> tuple[object, ...]:
        resource = key[1]
        borrowed, used = found[key]
        # Devices say more than cores and bytes, and all of them more than those of a flavor.
        return not used, "/" not in resource, -borrowed, -used, resource.startswith(FLAVOR_PREFIX), key

    return min(found, key=rank, default=None)


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
