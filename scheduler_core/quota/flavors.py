"""Quota by the type of node: what QuotaFlavors make of nodes and charges (docs/flavors.md).

A flavor selects nodes by labels. On these nodes its resource counts twice: as itself, the total over all
types, and as the virtual resource `flavor.muster.dev/NAME`, which `min` and `max` may name. A node is of one
flavor of a resource at most: of several that match, the oldest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.model.node import Node
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.resources import ResourceList

# (resource, virtual resource) of each flavor of a node.
OnNode = tuple[tuple[str, str], ...]
NONE: Final[OnNode] = ()


def in_order(flavors: Iterable[QuotaFlavor]) -> list[QuotaFlavor]:
    """The flavors, the oldest first; those that are being deleted count until they are gone."""
    return sorted(flavors, key=lambda flavor: flavor.age_order)


def on_node(flavors: Iterable[QuotaFlavor], labels: Mapping[str, str]) -> OnNode:
    """The flavors of a node with these labels, of `flavors` in order; one of each resource."""
    found: dict[str, str] = {}
    for flavor in flavors:
        if flavor.resource not in found and flavor.has(labels):
            found[flavor.resource] = flavor.virtual
    return tuple(found.items()) if found else NONE


def flavored(node: Node, flavors: OnNode) -> Node:
    """The node with its flavors among its allocatable resources, and no others."""
    plain = {name: value for name, value in node.allocatable.items() if not name.startswith(FLAVOR_PREFIX)}
    amounts = charged_on(plain, flavors)
    return node if amounts == node.allocatable else replace(node, allocatable=dict(amounts))


def charged_on(requests: ResourceList, flavors: OnNode) -> ResourceList:
    """What a pod with these requests is charged on a node of these flavors; the same object without any."""
    if not flavors:
        return requests
    more = {virtual: requests[name] for name, virtual in flavors if requests.get(name)}
    return {**requests, **more} if more else requests


def overlap(one: QuotaFlavor, other: QuotaFlavor) -> bool:
    """Whether a node can be of both flavors by its labels: no label tells them apart."""
    return one.resource == other.resource and all(
        other.selector.get(key, value) == value for key, value in one.selector.items()
    )
