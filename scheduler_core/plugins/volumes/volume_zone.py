"""VolumeZone: filters by the zone and region labels of bound volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler_core.arrays.intern import ABSENT
from scheduler_core.arrays.types import Bool
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.matching import is_in
from scheduler_core.framework.queueing.hints import Hint, NarrowHint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status, unresolvable
from scheduler_core.framework.view import NodeView
from scheduler_core.framework.volumes.claims import (
    find_claim,
    has_volumes,
    named_claims,
    not_found,
    prepared,
    reach_of_claims,
    volume_may_help,
)
from scheduler_core.model import names
from scheduler_core.model.names import VOLUME_ZONE
from scheduler_core.model.storage import PersistentVolumeClaim
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind

REASONS: Final = (Reason("node(s) had no available volume zone", resolvable=False),)
# Label of a volume, to the equivalent label of a node.
_LABELS: Final[Mapping[str, str]] = {
    names.LABEL_LEGACY_ZONE: names.LABEL_ZONE,
    names.LABEL_LEGACY_REGION: names.LABEL_REGION,
    names.LABEL_ZONE: names.LABEL_ZONE,
    names.LABEL_REGION: names.LABEL_REGION,
}
_SEPARATOR: Final = "__"


class VolumeZone:
    """Filter by the zone labels of bound volumes; a label may list several zones with `__` between them.

    A node without any zone or region label takes every volume: such a cluster has one zone.
    """

    name = VOLUME_ZONE
    scope = Scope.CLUSTER
    concerns = staticmethod(has_volumes)

    def pre_filter(self, cycle: Cycle) -> Status:
        """SKIP where no volume is tied to a zone; UNRESOLVABLE for claims without a volume to come."""
        if not cycle.pod.volumes:
            return SKIP
        zones: list[tuple[str, tuple[str, ...]]] = []
        for volume in named_claims(cycle.pod):
            claim = find_claim(cycle.state, cycle.pod, volume)
            if claim is None:
                return not_found("persistentvolumeclaim", volume.claim)
            if not claim.volume:
                refusal = _no_volume(cycle.state, claim)
                if refusal is not None:
                    return refusal
                continue
            bound = cycle.state.storage.volumes.get(claim.volume)
            if bound is None:
                return not_found("persistentvolume", claim.volume)
            zones.extend((key, _zones(bound.labels[key])) for key in _LABELS if key in bound.labels)
        wanted = [(key, values) for key, values in zones if values]
        cycle.slots[self.name] = wanted
        return SUCCESS if wanted else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        if not prepared(self, cycle):
            return np.zeros(len(nodes), dtype=np.uint64)
        zoned: Bool = np.zeros(len(nodes), dtype=np.bool_)  # [M]
        for label in _LABELS:
            zoned |= nodes.label(label) != ABSENT
        fits: Bool = np.ones(len(nodes), dtype=np.bool_)  # [M]
        for key, values in cycle.slots[self.name]:
            own = nodes.label(key)
            by_own = is_in(own, values, nodes.table.column(key).values)
            modern = _LABELS[key]
            by_modern = is_in(nodes.label(modern), values, nodes.table.column(modern).values)
            fits &= np.where(own != ABSENT, by_own, by_modern)
        bits: Bits = (zoned & ~fits).astype(np.uint64)
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The one bit."""
        return REASONS

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A node was added or relabelled; a claim, volume or class was added or changed."""
        return Obstacle.VOLUMES.hints(NarrowHint(volume_may_help, reach_of_claims))


def _zones(label: str) -> tuple[str, ...]:
    """The zones of a label; empty (the label is ignored) if one of them has no name."""
    zones = tuple(zone.strip() for zone in label.split(_SEPARATOR))
    return zones if all(zones) else ()


def _no_volume(state: ClusterState, claim: PersistentVolumeClaim) -> Status | None:
    """The reason why a zone refuses a claim without a volume; None if its volume is chosen later."""
    if not claim.storage_class:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    found = state.storage.classes.get(claim.storage_class)
    if found is None:
        return not_found("storageclass.storage.k8s.io", claim.storage_class)
    return None if found.waits else unresolvable("PersistentVolume had no name")
