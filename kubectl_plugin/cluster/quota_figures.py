"""The figures of `elasticquota get` as a document: the same for `get --figures` and for the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.quota_rows import QuotaRow, resource_order
from scheduler_core.model.node import Node
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resources import ResourceList
from scheduler_core.printing.counts import number_text
from scheduler_core.quota.ledger import shift
from scheduler_core.quota.lending import shares


class ResourceTotal(msgspec.Struct, frozen=True):
    """One resource over all quotas of the cluster, in its own unit (milli for CPU).

    `used`, `borrowed`, `lent` and `pending` are sums over the namespaces with a quota. `capacity` is what the
    nodes have; None where they are not known.
    """

    resource: str
    min: int
    used: int
    borrowed: int
    lent: int
    pending: int
    capacity: int | None


def totals_of(view: ClusterView, capacity: ResourceList | None) -> list[ResourceTotal]:
    """The totals of each resource that a quota's min or max names."""
    quotas = list(view.ledger.quotas())
    names = resource_order({name for quota in quotas for name in (*quota.min, *quota.max)})
    pending = {quota.namespace: view.pending(quota.namespace) for quota in quotas}
    balances = shares(view.ledger, names)
    return [
        ResourceTotal(
            name,
            sum(quota.min.get(name, 0) for quota in quotas),
            sum(view.ledger.used(quota.namespace).get(name, 0) for quota in quotas),
            sum(balances[name].borrowed.values()) if name in balances else 0,
            sum(balances[name].lent.values()) if name in balances else 0,
            sum(amounts.get(name, 0) for amounts in pending.values()),
            capacity.get(name, 0) if capacity is not None else None,
        )
        for name in names
    ]


def capacity_of(nodes: Iterable[Node]) -> dict[str, int]:
    """What nodes have of each resource, in all."""
    total: dict[str, int] = {}
    for node in nodes:
        shift(total, node.allocatable)
    return total


def figures_document(
    rows: Iterable[QuotaRow] | None, totals: Sequence[ResourceTotal] | None
) -> dict[str, Any]:
    """The rows (None: no quota could be read), and the totals where the whole cluster is known (else None).

    Quantities are exact.
    """
    return {
        "quotas": None if rows is None else [figure(row) for row in rows if row.resource],
        "totals": None if totals is None else [_total(item) for item in totals],
    }


def figure(row: QuotaRow) -> dict[str, Any]:
    """One row. Null: there is no limit (max, hard), or the amount is not known."""

    def text(value: int | None) -> str | None:
        return None if value is None else format_resource(row.resource, value)

    return {
        "namespace": row.namespace,
        "name": row.name,
        "resource": row.resource,
        "binding": row.binding,
        "used": text(row.used),
        "min": text(row.min),
        "max": text(row.max),
        "hard": text(row.hard),
        "borrowed": text(row.borrowed),
        "lent": text(row.lent),
        "reclaimable": text(row.reclaimable),
        "reserved": text(row.reserved),
        "pending": text(row.pending),
        "weight": number_text(row.weight),
        "share": None if row.share is None else number_text(row.share),
        "entitled": text(row.entitled),
    }


def _total(item: ResourceTotal) -> dict[str, Any]:
    fields = ("min", "used", "borrowed", "lent", "pending", "capacity")
    amounts = {name: getattr(item, name) for name in fields}
    return {"resource": item.resource} | {
        name: None if value is None else format_resource(item.resource, value)
        for name, value in amounts.items()
    }
