"""The flavors of the nodes, for the use of quotas by type (docs/flavors.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kubectl_plugin.cluster.reading import ListClient, ListScope, list_if_served, list_or_none, parsed
from scheduler_core.model.kinds import NODES, QUOTA_FLAVORS, QUOTA_GROUPS
from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.model.node import parse_node
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor, parse_quota_flavor
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.quota.flavors import OnNode, in_order, on_node

UNKNOWN_FLAVORS: Final = "note: use by flavor is not known: it needs the right to list QuotaFlavors and nodes"


def quota_flavors(client: ListClient) -> list[QuotaFlavor] | None:
    """The flavors of the cluster, those that count first; None if the user may not list them."""
    items = list_if_served(client, QUOTA_FLAVORS, ListScope())
    return None if items is None else in_order(parsed(items, parse_quota_flavor, lambda error: None))


def names_flavors(quotas: Iterable[ElasticQuota | QuotaGroup]) -> bool:
    """Whether min or max of a quota or group names a flavor."""
    return any(name.startswith(FLAVOR_PREFIX) for quota in quotas for name in (*quota.min, *quota.max))


def named_kinds(limits: Sequence[ElasticQuota | QuotaGroup]) -> frozenset[str]:
    """The kinds, by plural name, that the quotas and groups name objects of, and that limits depend on."""
    groups = any(isinstance(limit, ElasticQuota) and limit.group for limit in limits)
    return frozenset(
        ({QUOTA_GROUPS.plural} if groups else set())
        | ({QUOTA_FLAVORS.plural} if names_flavors(limits) else set())
    )


def node_flavors(
    client: ListClient, quotas: Iterable[ElasticQuota | QuotaGroup], note: Callable[[str], None]
) -> Mapping[str, OnNode] | None:
    """The flavors of each node that has some, if a quota or group names one; else nothing is read.

    None, and a note, if the user may not list flavors or nodes.
    """
    if not names_flavors(quotas):
        return {}
    flavors = quota_flavors(client)
    nodes = list_or_none(client, NODES, ListScope()) if flavors is not None else None
    if flavors is None or nodes is None:
        note(UNKNOWN_FLAVORS)
        return None
    found = {
        node.name: on_node(flavors, node.labels) for node in parsed(nodes, parse_node, lambda error: None)
    }
    return {name: flavors for name, flavors in found.items() if flavors}
