"""QuotaFlavors: the part of CapacityScheduling that depends on the node (docs/flavors.md).

What a quota allows of a type of node is known only for a node: PreFilter admits by the totals, and this
Filter refuses the nodes of each flavor of which the quota, or the sum of min, has no room for the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.quota_obstacles import flavor_hints, refusal_of
from scheduler_core.framework.status import Bits, Reason
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import FLAVOR_PREFIX, QUOTA_FLAVORS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.quota.flavors import charged_on
from scheduler_core.quota.policy import Refusal
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind

# Bits of one filter; further flavors share the last one.
_BITS: Final = 60


class QuotaFlavors:
    """One bit per flavor that refuses its nodes. It goes wherever CapacityScheduling is."""

    name = QUOTA_FLAVORS
    scope = Scope.CLUSTER

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Pods under a quota that request a resource of which there are flavors."""
        flavors = state.nodes.flavors
        return (
            bool(flavors)
            and any(pod.requests.get(name) for name in flavors.by_resource)
            and state.ledger.quota_of(pod.namespace) is not None
        )

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        state, pod = cycle.state, cycle.pod
        bits: Bits = np.zeros(len(nodes), dtype=np.uint64)
        reasons: list[Reason] = []
        for flavor in state.nodes.flavors.asked_by(pod.requests):
            here = state.nodes.flavors.mask(flavor.virtual, state.nodes.size)[nodes.slots]
            if here.any():
                refusal = flavor_refusal(state, pod, flavor, after_leaving=cycle.after_leaving)
                if refusal is not None:
                    bit = min(len(reasons), _BITS - 1)
                    text = _text(refusal, flavor)
                    if len(reasons) < _BITS:
                        reasons.append(Reason(text))
                    bits[here] |= np.uint64(1) << np.uint64(bit)
        cycle.slots[self.name] = reasons
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """One per flavor that refuses its nodes."""
        found: Sequence[Reason] = cycle.slots.get(self.name, ())
        return found

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
