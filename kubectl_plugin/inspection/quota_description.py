"""Descriptions of ElasticQuotas: use, what uses them, conditions, Events."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.quota_rows import QuotaRow
from kubectl_plugin.cluster.quota_snapshot import ObjectSelection, take_snapshot
from kubectl_plugin.cluster.reading import ListClient, ListScope
from kubectl_plugin.inspection.description import (
    Description,
    Section,
    conditions_section,
    events_section,
)
from kubectl_plugin.inspection.events import read_events
from kubectl_plugin.inspection.quota_tree import TreeNode
from kubectl_plugin.inspection.tree_reading import read_trees
from kubectl_plugin.render.table import ABSENT, UNKNOWN
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.meta import identity_of
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, LastReclaim
from scheduler_core.model.resources import ResourceList, to_strings
from scheduler_core.printing.counts import counted, number_text

_USE = (
    "Resource",
    "Used",
    "Min",
    "Max",
    "Hard",
    "Borrowed",
    "Lent",
    "Reserved",
    "Pending",
    "Share",
    "Entitled",
)


def describe_quotas(
    client: ListClient, scope: str, names: tuple[str, ...], diagnostics: Diagnostics
) -> Iterator[Description]:
    """The descriptions of the named quotas of a namespace; without names, of all (all namespaces if empty).

    Names without an object are reported. Raises the ApiError tree.
    """
    snapshot = take_snapshot(
        client,
        ObjectSelection(ListScope(scope), names),
        wide=True,
        even_if_none=False,
        on_error=diagnostics.object_error,
        on_malformed=diagnostics.unreadable,
        note=diagnostics.note,
    )
    if not snapshot.chosen:
        return
    trees = {tree.quota.key: tree.root for tree in read_trees(client, scope, diagnostics)}
    rows: dict[str, list[QuotaRow]] = {}
    for row, _ in snapshot.rows_with_labels(wide=True):
        rows.setdefault(f"{row.namespace}/{row.name}", []).append(row)
    for quota, raw in zip(snapshot.chosen, snapshot.raw, strict=True):
        meta = identity_of(raw)
        events = read_events(client, ELASTIC_QUOTAS.kind, meta, diagnostics)
        # A quota that was created between the two lists has no tree yet.
        root = trees.get(quota.key)
        sections = (
            Section("Use", _USE, tuple(_use(row) for row in rows[quota.key] if row.resource)),
            Section("Used by", ("Name", "Used", "Pending", "State"), tuple(_users(root))),
            conditions_section(quota.conditions),
            events_section(events, time.time()),
        )
        yield Description(ELASTIC_QUOTAS, meta, tuple(_facts(quota, root)), sections)


def _facts(quota: ElasticQuota, root: TreeNode | None) -> Iterator[tuple[str, str]]:
    if root is not None:
        yield "State", root.state
        yield "Pods", f"{counted(root.pods, 'pod')} unfinished, {root.running} running"
    yield "Weight", number_text(quota.sharing.weight)
    if quota.last_reclaim is not None:
        yield "Last reclaim", _reclaim(quota.last_reclaim)


def _reclaim(last: LastReclaim) -> str:
    return (
        f"{amounts(last.amounts)} of {counted(last.pods, 'pod')} at {last.time}, by {last.by} "
        f"for ElasticQuota {last.by_quota}"
    )


def _use(row: QuotaRow) -> tuple[str, ...]:
    def text(value: int | None, without: str = ABSENT) -> str:
        return without if value is None else format_resource(row.resource, value)

    counted_without = ABSENT if row.flavors_known else UNKNOWN
    return (
        row.resource,
        text(row.used, counted_without),
        text(row.min),
        text(row.max),
        text(row.hard, ABSENT if row.hard_known else UNKNOWN),
        text(row.borrowed, counted_without),
        text(row.lent, UNKNOWN if row.binding else ABSENT),
        text(row.reserved, UNKNOWN),
        text(row.pending, counted_without),
        ABSENT if not row.limited else UNKNOWN if row.share is None else number_text(row.share),
        text(row.entitled, UNKNOWN if row.limited else ABSENT),
    )


def _users(root: TreeNode | None) -> Iterator[tuple[str, ...]]:
    """The groups, owners and lone pods right below the quota."""
    for node in root.children if root is not None else ():
        yield f"{node.kind}/{node.name}", amounts(node.used), amounts(node.pending), node.state


def amounts(values: ResourceList) -> str:
    """`cpu=4500m,memory=1536Mi`; `-` for nothing."""
    return ",".join(f"{name}={text}" for name, text in to_strings(values).items()) or ABSENT
