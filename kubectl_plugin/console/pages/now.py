"""Now: what each quota uses, borrows, reserves and waits for, the worst off first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import msgspec
from markupsafe import Markup

from kubectl_plugin.cluster.group_tree import GroupFigure, TreeEntry, group_figures
from kubectl_plugin.cluster.quota_figures import ResourceTotal, figures_document, totals_of
from kubectl_plugin.cluster.quota_rows import UNCOUNTED, QuotaRow, resource_order
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.cluster_watch import ClusterWatch
from kubectl_plugin.console.drawing.bars import Bar, bar
from kubectl_plugin.console.pages.page import Content, LivePage, PageRequest, Services
from kubectl_plugin.console.pages.redaction import Redactor
from kubectl_plugin.render.quantity_text import human
from scheduler_core.model.quotas.elastic_quota import ElasticQuota

# Quotas on one page: it must be small, and nobody reads hundreds of bars.
MOST: Final = 40
_MOST_NAMES: Final = 5
UNKNOWN_TREES: Final = "you may not list quotagroups: groups of quotas are not shown"
# What is not known where a quota names objects of a kind that may not be listed, which nodes belong to.
_HIDDEN: Final = {
    "quotagroups": f"{UNKNOWN_TREES}; the sum of min, and what quotas are entitled to, are not known",
    "quotaflavors": "you may not list quotaflavors and nodes: what is used by flavor is not known",
}
# What is known of a quota by the right to list another kind.
_AMOUNTS: Final = {
    "pods": "what pods use and wait for",
    "resourcequotas": "hard",
    "reservationledgers": "reserved",
}
FIGURE_KINDS: Final = frozenset(
    {"pods", "nodes", "elasticquotas", "resourcequotas", "podgroups", "quotagroups", "quotaflavors"}
    | {"reservationledgers"}
)


class QuotaCard(msgspec.Struct, frozen=True):
    """One quota on the page: a line per resource, each with its bar and its numbers as text."""

    namespace: str
    name: str
    color: str
    lines: tuple[QuotaLine, ...]
    binding: bool
    waits: bool


class QuotaLine(msgspec.Struct, frozen=True):
    """The bar of one resource, and its numbers in words. `used`: empty where it is not known."""

    resource: str
    bar: Markup
    used: str
    limits: str
    facts: tuple[tuple[str, str], ...]


class GroupCard(msgspec.Struct, frozen=True):
    """One QuotaGroup on the page; `children` are the groups and quotas right below it."""

    name: str
    lines: tuple[QuotaLine, ...]
    children: tuple[str, ...]


class NowPage(LivePage):
    """The first page."""

    name = "now"
    path = "/now"
    title = "Now"
    kinds = FIGURE_KINDS

    def content(self, services: Services, request: PageRequest) -> Content:
        """The figures of all quotas that the viewer may see, and the totals of the cluster."""
        seen = _figures(services, request.viewer)
        redactor, colors = request.redactor(services), request.colors(services)
        wanted = request.params.get("q", "").strip().lower()
        found = [one for one in by_quota(seen.rows) if wanted in f"{one[0].namespace}/{one[0].name}".lower()]
        if request.params.get("sort") != "name":
            found.sort(key=_worst_first)
        start = _number(request.params.get("from", ""))
        groups = [] if start else [group for group in seen.groups or () if wanted in _group_words(group)]
        shown = found[start : start + MOST]
        rows = seen.rows if services.watch.lists("elasticquotas") else None
        return Content(
            lambda: figures_document(rows, seen.groups, seen.totals),
            {
                "totals": [_total(item) for item in seen.totals or ()],
                "groups": [_group(group) for group in groups[:MOST]],
                "more_groups": max(0, len(groups) - MOST),
                "cards": [_card(of_quota, colors.of(of_quota[0].namespace), redactor) for of_quota in shown],
                "count": len(found),
                "start": start,
                "most": MOST,
                "params": {"q": wanted, "sort": request.params.get("sort", "")},
            },
            seen.lacks,
        )


class _Figures(msgspec.Struct, frozen=True):
    """What a viewer may see of the quotas; None for what is not known or not theirs. `lacks`: why."""

    rows: list[QuotaRow]
    groups: list[GroupFigure] | None
    totals: list[ResourceTotal] | None
    lacks: tuple[str, ...]


def _figures(services: Services, viewer: Viewer) -> _Figures:
    cluster, watch = services.watch.cluster, services.watch
    with cluster.lock:
        quotas = [quota for quota in _in_order(cluster.quotas.values()) if viewer.sees(quota.namespace)]
        rows = cluster.view.rows(quotas, whole=watch.whole_use, natives=True, wide=True, ledgers=True)
        capacity = cluster.capacity() if watch.lists("nodes", everywhere=True) else None
        totals = totals_of(cluster.view, capacity) if watch.whole_use else None
        groups = group_figures(cluster.view.ledger) if _sees_trees(services, viewer) else None
        without_trees = bool(cluster.view.ledger.tree) and not viewer.trees
        hidden = cluster.view.hidden()
    if totals is not None and viewer.namespaces is not None:
        # Sums over others are shown, but not what others name: a resource may be called like its owner.
        own = {row.resource for row in rows}
        totals = [item for item in totals if item.resource in own]
    unread = {
        name: frozenset(what for what in _AMOUNTS if not _may(watch, viewer, what, name))
        for name in sorted({quota.namespace for quota in quotas})
    }
    trees = (UNKNOWN_TREES,) if without_trees and viewer.namespaces is None else ()
    lacks = (*_lacks(watch, unread), *trees, *(_HIDDEN[kind] for kind in sorted(hidden)))
    return _Figures([_visible(row, unread[row.namespace]) for row in rows], groups, totals, lacks)


def _sees_trees(services: Services, viewer: Viewer) -> bool:
    """Whether the groups are known and may be shown: their sums tell of the quotas of all namespaces."""
    known = services.watch.whole_use and services.watch.lists("quotagroups")
    return known and viewer.trees and viewer.namespaces is None


def _visible(row: QuotaRow, unread: Set[str]) -> QuotaRow:
    """The row without the amounts that come from kinds of objects that may not be read in its namespace."""
    if "pods" in unread:
        row = msgspec.structs.replace(row, **dict.fromkeys(UNCOUNTED))
    if "resourcequotas" in unread:
        row = msgspec.structs.replace(row, hard=None, hard_known=False)
    if "reservationledgers" in unread:
        row = msgspec.structs.replace(row, reserved=None)
    return row


def _may(watch: ClusterWatch, viewer: Viewer, what: str, namespace: str) -> bool:
    """Whether amounts of a namespace are known to the console, and may be shown to the viewer."""
    shown = {"resourcequotas": viewer.sees_limits, "reservationledgers": viewer.sees_reservations}
    return watch.lists_in(what, namespace) and shown.get(what, viewer.sees)(namespace)


def _lacks(watch: ClusterWatch, unread: Mapping[str, Set[str]]) -> Iterator[str]:
    """What may not be read of the namespaces of the page, by namespace, and what is not known therefore."""
    if not watch.lists("elasticquotas"):
        yield "you may not list elasticquotas: which quotas there are is not known"
    for what, amount in _AMOUNTS.items():
        missing = [name for name, kinds in unread.items() if what in kinds]
        if missing and len(missing) == len(unread):
            yield f"you may not list {what}: {amount} is not known"
        elif missing:
            where = f"{', '.join(missing[:_MOST_NAMES])}{', ...' if len(missing) > _MOST_NAMES else ''}"
            yield f"you may not list {what} in {where}: {amount} is not known there"


def _in_order(quotas: Iterable[ElasticQuota]) -> list[ElasticQuota]:
    """By namespace and name, as the API server lists them."""
    return sorted(quotas, key=lambda quota: (quota.namespace, quota.name))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 7 else 0


def by_quota(rows: Iterable[QuotaRow]) -> list[list[QuotaRow]]:
    """The rows of each quota; one without a resource for a quota that names none."""
    found: dict[tuple[str, str], list[QuotaRow]] = {}
    for row in rows:
        found.setdefault((row.namespace, row.name), []).append(row)
    return list(found.values())


def _worst_first(rows: Sequence[QuotaRow]) -> tuple[float, float, float, str]:
    """Who lacks most of what it is guaranteed, then of what it is entitled to, then uses most of its min."""
    amounts = [(row.pending or 0, row.used or 0, row.min, row.entitled or 0) for row in rows]
    lacks = max(_part(min(pending, least - used), least) for pending, used, least, _ in amounts)
    claims = max(_part(min(pending, fair - used), fair) for pending, used, _, fair in amounts)
    full = max(_part(used, least) for _, used, least, _ in amounts)
    return -lacks, -claims, -full, rows[0].namespace


def _part(amount: int, whole: int) -> float:
    return max(0.0, amount / whole) if whole > 0 else 0.0


def _card(rows: Sequence[QuotaRow], color: str, redactor: Redactor) -> QuotaCard:
    first = rows[0]
    return QuotaCard(
        first.namespace,
        first.name,
        color,
        tuple(_line(row, color, redactor) for row in rows if row.resource),
        first.binding,
        any(row.pending for row in rows),
    )


def _line(row: QuotaRow, color: str, redactor: Redactor) -> QuotaLine:
    def text(amount: int | None) -> str:
        return "unlimited" if amount is None else human(row.resource, amount)

    # Without a use, the bar has its marks only.
    used = "" if row.used is None else text(row.used)
    amounts = Bar(row.used or 0, row.borrowed or 0, row.reserved or 0, row.pending or 0, row.min, row.max)
    facts = tuple((name, words) for name, words in _facts(row, redactor))
    told = ", ".join(f"{name} {words}" for name, words in facts)
    limits = f"min {text(row.min)}, max {text(row.max)}"
    words = f"used {used}" if used else "use not known"
    label = f"{row.namespace} {row.resource}: {words}, {limits}{', ' if told else ''}{told}"
    return QuotaLine(row.resource, bar(amounts, color, label), used, limits, facts)


def _group_words(group: GroupFigure) -> str:
    """What the search for a quota finds a group by: its name, and the names below it."""
    return " ".join((group.entry.name, *(name for _, name in group.children))).lower()


def _group(group: GroupFigure) -> GroupCard:
    entry = group.entry
    lines = tuple(_group_line(entry, name) for name in resource_order(entry.resources()))
    return GroupCard(entry.name, lines, tuple(name for _, name in group.children))


def _group_line(entry: TreeEntry, name: str) -> QuotaLine:
    used, low, most = entry.used.get(name, 0), entry.min.get(name, 0), entry.max.get(name)
    borrowed = entry.borrowed.get(name, 0)
    amounts = (("borrows", borrowed), ("lends", entry.lent.get(name, 0)))
    facts = tuple((word, human(name, amount)) for word, amount in amounts if amount)
    limits = f"min {human(name, low)}, max {'unlimited' if most is None else human(name, most)}"
    told = "".join(f", {word} {amount}" for word, amount in facts)
    label = f"QuotaGroup {entry.name} {name}: used {human(name, used)}, {limits}{told}"
    drawn = bar(Bar(used, borrowed, 0, 0, low, most), "total", label)
    return QuotaLine(name, drawn, human(name, used), limits, facts)


def _facts(row: QuotaRow, redactor: Redactor) -> Iterator[tuple[str, str]]:
    """What is worth a word: everything that is not nothing."""
    amounts = {
        "borrows": row.borrowed,
        "lends": row.lent,
        "reserved": row.reserved,
        "waits": row.pending,
        "above max": row.above_max,
    }
    for name, amount in amounts.items():
        if amount:
            yield name, human(row.resource, amount)
    if row.lent is None and row.binding:
        yield "lends", "not known"
    if row.hard is not None:
        yield "hard", human(row.resource, row.hard)
    if row.entitled is not None and row.pending:
        yield "entitled to", human(row.resource, row.entitled)
    taken = row.reclaim.amounts.get(row.resource) if row.reclaim is not None else None
    if row.reclaim is not None and taken:
        yield (
            "taken back",
            f"{human(row.resource, taken)} for {redactor.text(row.reclaim.by)}, {row.reclaim.time}",
        )


def _total(item: ResourceTotal) -> dict[str, Any]:
    def text(amount: int | None) -> str:
        return "not known" if amount is None else human(item.resource, amount)

    amounts = Bar(item.used or 0, item.borrowed or 0, 0, item.pending or 0, item.min, item.capacity)
    numbers = (
        ("used", text(item.used)),
        ("sum of min", text(item.min)),
        ("capacity", text(item.capacity)),
        ("borrowed", text(item.borrowed)),
        ("waits", text(item.pending)),
    )
    label = f"all quotas, {item.resource}: " + ", ".join(f"{name} {words}" for name, words in numbers)
    return {"resource": item.resource, "numbers": numbers, "bar": bar(amounts, "total", label)}
