"""QuotaFlavors: the part of CapacityScheduling that depends on the node (docs/flavors.md).

What a quota allows of a type of node is known only for a node: PreFilter admits by the totals, and this
Filter refuses the nodes of each flavor of which the quota, or the sum of min, has no room for the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.quota_obstacles import flavor_hints, refusal_of
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import FLAVOR_PREFIX, QUOTA_FLAVORS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.quota.flavor_room import tight_flavors
from scheduler_core.quota.flavors import charged_on
from scheduler_core.quota.policy import Refusal
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind

# Bits of one filter; further flavors share the last one.
_BITS: Final = 60


class _RefusedFlavor(NamedTuple):
    """A flavor, as the resource that it makes, and why the quota refuses its nodes."""

    virtual: str
    text: str


class QuotaFlavors:
    """One bit per flavor that refuses its nodes. It goes wherever CapacityScheduling is."""

    name = QUOTA_FLAVORS
    scope = Scope.CLUSTER
    reads_labels = False

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Pods under a quota that request a resource of which there are flavors."""
        flavors = state.nodes.flavors.by_resource
        if not flavors or flavors.keys().isdisjoint(pod.requests):
            return False
        return state.ledger.quota_of(pod.namespace) is not None

    def pre_filter(self, cycle: Cycle) -> Status:
        """SKIP while every flavor has room: then a pod costs what it costs without flavors."""
        state, pod = cycle.state, cycle.pod
        flavors: Sequence[QuotaFlavor] = state.nodes.flavors.asked_by(pod.requests)
        if not (len(state.nominations) or state.gangs.quota_holds.holds):
            flavors = tight_flavors(state.ledger, pod.namespace, pod.requests, flavors)
        if not flavors:
            return SKIP
        found = []
        for flavor in flavors:
            refusal = flavor_refusal(state, pod, flavor, after_leaving=cycle.after_leaving)
            if refusal is not None:
                found.append(_RefusedFlavor(flavor.virtual, _text(refusal, flavor)))
        cycle.slots[self.name] = found
        return SUCCESS if found else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        flavors, size = cycle.state.nodes.flavors, cycle.state.nodes.size
        bits: Bits = np.zeros(len(nodes), dtype=np.uint64)
        for number, refused in enumerate(cycle.slots[self.name]):
            here = flavors.mask(refused.virtual, size)[nodes.slots]
            bits[here] |= np.uint64(1) << np.uint64(min(number, _BITS - 1))
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """One per flavor that refuses its nodes."""
        found: Sequence[_RefusedFlavor] = cycle.slots.get(self.name, ())
        return [Reason(refused.text) for refused in found[:_BITS]]

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Events that make room in a flavor."""
        return flavor_hints()


def flavor_refusal(
    state: ClusterState, pod: Pod, flavor: QuotaFlavor, *, after_leaving: bool = False
) -> Refusal | None:
    """Why quotas refuse a pod on nodes of a flavor although they admit it elsewhere, or None."""
    asked = charged_on(pod.requests, ((flavor.resource, flavor.virtual),))
    refusal = refusal_of(state, pod, after_leaving=after_leaving, asked=asked)
    return refusal if refusal is not None and refusal.resource == flavor.virtual else None


def _text(refusal: Refusal, flavor: QuotaFlavor) -> str:
    """`flavor h100: used 6 + 1 exceeds max 6`."""

    def amount(value: int) -> str:
        return format_resource(refusal.resource, value)

    more = [
        f" + {word} {amount(value)}"
        for word, value in (
            ("nominated", refusal.nominated),
            ("held", refusal.held),
            ("kept back", refusal.kept),
        )
        if value
    ]
    limit = f"max of QuotaGroup {refusal.group}" if refusal.rule == "group max" else refusal.rule
    used = "used by all quotas" if refusal.rule == "sum(min)" else "used"
    name = refusal.resource.removeprefix(FLAVOR_PREFIX)
    asked = f"{amount(refusal.used)}{''.join(more)} + {amount(refusal.asked)}"
    return f"flavor {name}: {used} {asked} exceeds {limit} {amount(refusal.limit)}"
