"""NodeVolumeLimits: filters out nodes whose CSI drivers are missing or cannot attach more volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint, NarrowHint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.framework.volumes.claims import (
    claim_may_help,
    claim_volumes,
    find_claim,
    has_volumes,
    hint_of,
    prepared,
    reach_of_claims,
)
from scheduler_core.model.names import NODE_VOLUME_LIMITS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.storage import CSINode
from scheduler_core.model.storage_pools import CSIDriver
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.nodes.held import mask
from scheduler_core.state.volumes.attachments import Handle

# Where PreFilter leaves why a claim is not there.
_LOST: Final = "NodeVolumeLimits.lost"
_FULL: Final = Reason("node(s) exceed max volume count")
# Each driver that must be there takes one of 64 bits; a pod rarely has more than one.
_MOST_NAMED: Final = 32


class NodeVolumeLimits:
    """Distinct volumes of a node's pods and of this pod, per driver, against the limits of its CSINode.

    A node without CSINode, or a driver without a count there, has no limit. Where the CSIDriver says so
    (`preventPodSchedulingIfMissing`), a node must list the driver (kube-scheduler since 1.37).
    """

    name = NODE_VOLUME_LIMITS
    scope = Scope.CLUSTER
    concerns = staticmethod(has_volumes)

    def pre_filter(self, cycle: Cycle) -> Status:
        """SKIP without CSI volumes. Notes the volumes, and a claim that does not exist."""
        if not cycle.pod.volumes:
            return SKIP
        state, pod = cycle.state, cycle.pod
        wanted: set[Handle] = set()
        for volume in claim_volumes(pod):
            claim = find_claim(state, pod, volume)
            if claim is None:
                # VolumeBinding refuses the pod before any filter; without that plugin, no node will do.
                missing = f'persistentvolumeclaim "{volume.claim}" not found'
                cycle.slots[_LOST] = f"looking up PVC {pod.namespace}/{volume.claim}: {missing}"
                cycle.slots[self.name] = []
                return SUCCESS
            handle = state.storage.handle(claim.key)
            if handle is not None:
                wanted.add(handle)
        cycle.slots[self.name] = sorted(wanted)
        return SUCCESS if wanted else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        if not prepared(self, cycle):
            return np.zeros(len(nodes), dtype=np.uint64)
        if _LOST in cycle.slots:
            return np.ones(len(nodes), dtype=np.uint64)
        wanted: list[Handle] = cycle.slots[self.name]
        attachments, size = cycle.state.storage.attachments, nodes.table.size
        missing = np.zeros(size, dtype=np.uint64)  # [N]
        for place, driver in enumerate(_required(cycle.state, wanted), 1):
            lacks = ~attachments.installed(driver) & (missing == 0)
            missing |= lacks.astype(np.uint64) << np.uint64(place)
        over = np.zeros(size, dtype=np.bool_)  # [N]
        for driver in {driver for driver, _ in wanted}:
            new = np.zeros(size, dtype=np.int64)  # [N] volumes that the node does not have yet
            for handle in wanted:
                if handle[0] == driver:
                    new += ~mask(tuple(attachments.slots_with(handle)), size)
            # Only drivers with new volumes can exceed their limit: attached volumes may stay.
            over |= (new > 0) & (attachments.attached(driver) > attachments.limit(driver) - new)
        bits: Bits = np.where(missing > 0, missing, over.astype(np.uint64))[nodes.slots]
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """One bit for full nodes, then one for each driver that nodes must have: no eviction brings it.

        For a claim that does not exist, one bit alone.
        """
        if _LOST in cycle.slots:
            return (Reason(cycle.slots[_LOST], resolvable=False),)
        wanted: list[Handle] = cycle.slots.get(self.name, [])
        absent = (
            f"{driver} CSI driver is not installed on the node" for driver in _required(cycle.state, wanted)
        )
        return (_FULL, *(Reason(text, resolvable=False) for text in absent))

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A new node, driver or limit, a deleted pod with claims, or a new or changed claim of the pod."""
        return Obstacle.VOLUMES.hints(NarrowHint(_may_help, reach_of_claims))


def _required(state: ClusterState, wanted: Sequence[Handle]) -> list[str]:
    """The drivers of these volumes that a node must list."""
    drivers = sorted({driver for driver, _ in wanted})
    known = state.storage.drivers
    return [name for name in drivers if name in known and known[name].required_on_node][:_MOST_NAMED]


def _detaches(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    return event.pod is None or bool(claim_volumes(event.pod))


def _limit_or_claim(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    return isinstance(event.obj, CSINode | CSIDriver) or claim_may_help(state, pod, event)


_may_help = hint_of(_detaches, _limit_or_claim)
