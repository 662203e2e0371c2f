"""The figures of `elasticquota get` as a document: the same for `get --figures` and for the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.group_tree import GroupFigure
from kubectl_plugin.cluster.quota_rows import QuotaRow, resource_order
from scheduler_core.model.kinds import QUOTA_FLAVORS, QUOTA_GROUPS
from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.model.node import Node
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.resources import ResourceList
from scheduler_core.printing.counts import number_text
from scheduler_core.quota.flavors import flavored, on_node
from scheduler_core.quota.ledger import shift
from scheduler_core.quota.lending import shares


class ResourceTotal(msgspec.Struct, frozen=True):
    """One resource over all quotas of the cluster, in its own unit (milli for CPU).

    `min` is the sum of min of the root's children, which admission compares with. `used`, `borrowed`, `lent`
    and `pending` are sums over the namespaces with a quota. `capacity` is what the nodes have. None where an
    amount is not known.
    """

    resource: str
    min: int | None
    used: int | None
    borrowed: int | None
    lent: int | None
    pending: int | None
    capacity: int | None


def totals_of(view: ClusterView, capacity: ResourceList | None) -> list[ResourceTotal]:
    """The totals of each resource that a quota's min or max names, or the min of a group."""
    quotas, sum_of_min = list(view.ledger.quotas()), view.ledger.total_min
    names = resource_order({*sum_of_min, *(name for quota in quotas for name in quota.max)})
    pending = {quota.namespace: view.pending(quota.namespace) for quota in quotas}
    balances = shares(view.ledger, names)
    hidden = view.hidden()
    totals = [
        ResourceTotal(
            name,
            sum_of_min.get(name, 0),
            sum(view.ledger.used(quota.namespace).get(name, 0) for quota in quotas),
            sum(balances[name].borrowed.values()) if name in balances else 0,
            sum(balances[name].lent.values()) if name in balances else 0,
            sum(amounts.get(name, 0) for amounts in pending.values()),
            _capacity(capacity, name),
        )
        for name in names
    ]
    return [_known_total(item, hidden) for item in totals]


def _known_total(item: ResourceTotal, hidden: frozenset[str]) -> ResourceTotal:
    """The total without the amounts that depend on kinds that were not read, by plural name."""
    if QUOTA_GROUPS.plural in hidden:
        item = msgspec.structs.replace(item, min=None)
    if QUOTA_FLAVORS.plural in hidden and item.resource.startswith(FLAVOR_PREFIX):
        item = msgspec.structs.replace(item, used=None, borrowed=None, lent=None, pending=None)
    return item


def capacity_of(nodes: Iterable[Node], flavors: Sequence[QuotaFlavor]) -> dict[str, int]:
    """What nodes have of each resource and flavor, in all. `flavors` are those that are known, in order."""
    total = {flavor.virtual: 0 for flavor in flavors}
    for node in nodes:
        shift(total, flavored(node, on_node(flavors, node.labels)).allocatable)
    return total


def _capacity(capacity: ResourceList | None, name: str) -> int | None:
    """The capacity of a resource; None for a flavor that is not known."""
    if capacity is None or (name.startswith(FLAVOR_PREFIX) and name not in capacity):
        return None
    return capacity.get(name, 0)


def figures_document(
    rows: Iterable[QuotaRow] | None,
    groups: Sequence[GroupFigure] | None,
    totals: Sequence[ResourceTotal] | None,
) -> dict[str, Any]:
    """The rows, the groups and the totals, with exact quantities.

    None for what is not known: totals need the whole cluster, and groups the right to list them, too.
    """
    return {
        "quotas": None if rows is None else [figure(row) for row in rows],
        "groups": None if groups is None else [group.document() for group in groups],
        "totals": None if totals is None else [_total(item) for item in totals],
    }


def figure(row: QuotaRow) -> dict[str, Any]:
    """One row. Null: there is no limit (max, hard), or the amount is not known.

    A quota without resources has one row, whose resource and amounts are null.
    """

    def text(value: int | None) -> str | None:
        return None if value is None or not row.resource else format_resource(row.resource, value)

    return {
        "namespace": row.namespace,
        "name": row.name,
        "resource": row.resource or None,
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
