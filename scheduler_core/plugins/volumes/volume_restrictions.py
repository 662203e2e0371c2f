"""VolumeRestrictions: filters out nodes where a disk or claim of the pod is in use exclusively."""

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
    find_claim,
    has_volumes,
    hint_of,
    named_claims,
    not_found,
    prepared,
    reach_of_claims,
)
from scheduler_core.model.names import VOLUME_RESTRICTIONS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.storage import READ_WRITE_ONCE_POD
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.nodes.held import mask

DISK: Final = Reason("node(s) had no available disk")
ONE_POD: Final = Reason(
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)


class VolumeRestrictions:
    """Inline GCE, EBS, iSCSI and RBD disks per node, and ReadWriteOncePod claims in the whole cluster."""

    name = VOLUME_RESTRICTIONS
    scope = Scope.CLUSTER
    concerns = staticmethod(has_volumes)

    def pre_filter(self, cycle: Cycle) -> Status:
        """SKIP where nothing can conflict; UNRESOLVABLE for a claim that does not exist."""
        if not cycle.pod.volumes:
            return SKIP
        state, pod = cycle.state, cycle.pod
        in_use = False
        for volume in named_claims(pod):
            claim = find_claim(state, pod, volume)
            if claim is None:
                return not_found("persistentvolumeclaim", volume.claim)
            alone = READ_WRITE_ONCE_POD in claim.modes
            in_use = in_use or (alone and bool(state.storage.used.slots(claim.key)))
        cycle.slots[self.name] = in_use
        return SUCCESS if in_use or any(volume.disk for volume in pod.volumes) else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]: bit 0 a disk, on every node bit 1 a claim in use."""
        if not prepared(self, cycle):
            return np.zeros(len(nodes), dtype=np.uint64)
        held, size = cycle.state.storage.disks, nodes.table.size
        taken = np.zeros(size, dtype=np.bool_)  # [N]
        for volume in cycle.pod.volumes:
            if volume.disk:
                taken |= mask(held.slots((volume.disk, False)), size)
                if not volume.read_only:
                    taken |= mask(held.slots((volume.disk, True)), size)
        bits: Bits = taken[nodes.slots].astype(np.uint64)
        if cycle.slots[self.name]:
            bits |= np.uint64(2)
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The reasons of the two bits."""
        return (DISK, ONE_POD)

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A new node, a deleted pod with one of the disks or claims, or a new or changed claim of the pod."""
        return Obstacle.VOLUMES.hints(NarrowHint(_may_help, reach_of_claims))


def _gives_back(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    if event.pod is None:
        return True
    disks = {volume.disk for volume in event.pod.volumes if volume.disk}
    claims = {volume.claim for volume in event.pod.volumes if volume.claim}
    same_namespace = event.pod.namespace == pod.namespace
    return any(v.disk in disks or (same_namespace and v.claim in claims) for v in pod.volumes)


_may_help = hint_of(_gives_back, claim_may_help)
