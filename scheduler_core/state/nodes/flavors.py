"""The flavors of the nodes: which nodes are of which QuotaFlavor (docs/flavors.md)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler_core.arrays.types import Bool
from scheduler_core.model.node import Node
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.flavors import NONE, OnNode, charged_on, flavored, in_order, on_node


class NodeFlavors:
    """All QuotaFlavors, and the flavors of each node slot. Without flavors nothing is kept."""

    def __init__(self) -> None:
        self._by_name: dict[str, QuotaFlavor] = {}
        self._on_slot: dict[int, OnNode] = {}
        self._masks: dict[str, Bool] = {}
        # In the order in which they count.
        self.ordered: list[QuotaFlavor] = []
        # Flavors by resource, in order.
        self.by_resource: dict[str, list[QuotaFlavor]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def put(self, flavor: QuotaFlavor) -> bool:
        """Add or replace a flavor; True if nodes may have other flavors now."""
        old = self._by_name.get(flavor.name)
        self._by_name[flavor.name] = flavor
        self._sort()
        return old is None or old.rules() != flavor.rules()

    def remove(self, name: str) -> bool:
        """Forget a flavor; True if it was known."""
        known = self._by_name.pop(name, None) is not None
        self._sort()
        return known

    def _sort(self) -> None:
        self.ordered = in_order(self._by_name.values())
        self.by_resource = {}
        for flavor in self.ordered:
            self.by_resource.setdefault(flavor.resource, []).append(flavor)

    def of_labels(self, node: Node) -> OnNode:
        """The flavors that a node has by its labels."""
        return on_node(self.ordered, node.labels) if self.ordered else NONE

    def fitted(self, node: Node) -> Node:
        """The node with its flavors among its allocatable resources."""
        return flavored(node, self.of_labels(node)) if self._by_name or self._on_slot else node

    def set(self, slot: int, flavors: OnNode = NONE) -> bool:
        """Note the flavors of a node, by default none; True if they changed."""
        if self._on_slot.get(slot, NONE) == flavors:
            return False
        self._masks.clear()
        if flavors:
            self._on_slot[slot] = flavors
        else:
            del self._on_slot[slot]
        return True

    def at(self, slot: int | None) -> OnNode:
        """The flavors of a node slot."""
        return self._on_slot.get(slot, NONE) if self._on_slot and slot is not None else NONE

    def charge(self, requests: ResourceList, slot: int | None) -> ResourceList:
        """What a pod with these requests is charged on a node."""
        # Asked for every pod that is placed: without flavors, it costs nothing.
        return charged_on(requests, self.at(slot)) if self._on_slot else requests

    def asked_by(self, requests: ResourceList) -> list[QuotaFlavor]:
        """The flavors of the resources that a pod requests."""
        found = (self.by_resource[name] for name in self.by_resource if requests.get(name))
        return [flavor for flavors in found for flavor in flavors]

    def asked(self, pod: Pod) -> ResourceList:
        """What a pod is charged wherever it runs: its requests, with the flavors that its selector names."""
        if not self._by_name or not pod.node_selector:
            return pod.requests
        labels = dict(pod.node_selector)
        found = [
            (flavor.resource, flavor.virtual) for flavor in self.asked_by(pod.requests) if flavor.has(labels)
        ]
        return charged_on(pod.requests, tuple(found))

    def charges(self, pod: Pod) -> list[ResourceList]:
        """What a pod may be charged, by the node that it gets: without a flavor, and on those of each."""
        asked = self.asked(pod)
        if asked is not pod.requests:
            return [asked]
        places = ((flavor.resource, flavor.virtual) for flavor in self.asked_by(pod.requests))
        return [asked, *(charged_on(asked, (place,)) for place in places)]

    def mask(self, virtual: str, size: int) -> Bool:
        """bool [N]: the nodes of a flavor. Read only."""
        found = self._masks.get(virtual)
        if found is None or len(found) != size:
            found = np.zeros(size, dtype=np.bool_)
            found[
                [slot for slot, flavors in self._on_slot.items() if slot < size and _has(flavors, virtual)]
            ] = True
            self._masks[virtual] = found
        return found


def _has(flavors: Iterable[tuple[str, str]], virtual: str) -> bool:
    return any(found == virtual for _, found in flavors)
