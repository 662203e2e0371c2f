"""`kubectl podgroup status NAME`: one group with every member, and why it waits, with numbers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from kubectl_plugin.age import age
from kubectl_plugin.group_standing import Standing, state_of
from kubectl_plugin.group_view import GroupView
from kubectl_plugin.table import Cell, TablePrinter, visible
from scheduler_core.controllers.gang_elsewhere import ELSEWHERE
from scheduler_core.model.conditions import find
from scheduler_core.model.gang import Gang
from scheduler_core.model.quantity import format_resource
from scheduler_core.quota.holds import amounts_text

MEMBER_COLUMNS: Final = ("MEMBER", "NODE", "STATE", "AGE")
_NONE: Final = "-"


def detail(view: GroupView, standing: Standing, *, known: bool) -> list[str]:
    """The lines of one group. `known`: the reservations could be read."""
    facts = list(_facts(view, standing, known=known))
    width = max(len(title) for title, _ in facts) + 1
    lines = [f"{title + ':':<{width}}  {visible(text)}" for title, text in facts]
    if not standing.members:
        return lines
    now = time.time()
    rows = [
        [Cell(pod.name), Cell(pod.node_name or _NONE), Cell(state_of(pod)), Cell(age(pod.created, now))]
        for pod in standing.members
    ]
    return [*lines, "", *TablePrinter(MEMBER_COLUMNS).lines(rows)]


def _facts(view: GroupView, standing: Standing, *, known: bool) -> Iterator[tuple[str, str]]:
    gang, census = standing.gang, standing.census
    yield "Group", str(gang.ref)
    yield "Phase", standing.phase
    yield (
        "Members",
        f"needs {gang.min_members}: {census.allocated} have a node, {census.waiting} wait, "
        f"{census.succeeded} succeeded, {census.failed} failed",
    )
    elsewhere = find(gang.status.conditions, ELSEWHERE)
    if elsewhere is not None:
        yield "Elsewhere", elsewhere.message
    if gang.total:
        yield "Reserved", _reserved(standing, known=known)
    if standing.kept is not None:
        yield "Nodes kept", standing.kept.long
    if standing.topology != _NONE:
        yield "Topology", ", ".join(filter(None, (standing.topology, standing.unenforced)))
        if where := _where(view, gang):
            yield "Placed on", where
    quota = _quota(view, standing)
    if quota:
        yield "Quota", quota
    if standing.reason:
        yield "Waits for", standing.reason


def _where(view: GroupView, gang: Gang) -> str:
    """`rack rack-0: 2, rack-1: 2`: how many members are in each unit of the highest level."""
    tree = view.tree(gang)
    counts = Counter(tree.path(seat.leaf)[0] for _, seat in view.ranked(gang))
    parts = (f"{unit}: {counts[unit]}" for unit in tree.units[0] if counts[unit])
    text = ", ".join(parts)
    return f"{tree.levels[0]} {text}" if text else ""


def _reserved(standing: Standing, *, known: bool) -> str:
    if not known:
        return "not known: you may not list reservationledgers"
    if standing.reserved is None:
        return f"nothing of {amounts_text(standing.gang.total)}: the reservation ledger does not list it"
    return str(standing.reserved)


def _quota(view: GroupView, standing: Standing) -> str:
    """`ElasticQuota a/quota: cpu 2 of 8 left`: what its max leaves, of what the members ask for."""
    ledger, namespace = view.state.ledger, standing.gang.ref.namespace
    quota = ledger.quota_of(namespace)
    asked = {name for pod in standing.members for name, value in pod.requests.items() if value}
    if quota is None or not asked & quota.max.keys():
        return ""
    used = ledger.used(namespace)
    parts = [
        f"{name} {format_resource(name, max(0, quota.max[name] - used.get(name, 0)))} "
        f"of {format_resource(name, quota.max[name])} left"
        for name in sorted(asked & quota.max.keys())
    ]
    return f"ElasticQuota {quota.key}: {', '.join(parts)}"
