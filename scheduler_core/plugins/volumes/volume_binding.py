"""VolumeBinding: filters by the volumes of a pod's claims, and binds or provisions them before the pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.allocation import Points, capacity_ratio
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.queueing.hints import Hint, NarrowHint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Code, Reason, Status, unresolvable
from scheduler_core.framework.view import NodeView
from scheduler_core.framework.volumes.claims import (
    claim_volumes,
    find_claim,
    has_volumes,
    not_found,
    prepared,
    reach_of_claims,
    volume_may_help,
)
from scheduler_core.framework.volumes.matching import NONE, allowed_by, match_claims
from scheduler_core.framework.volumes.space import is_limited, score_space, space_for
from scheduler_core.model import names
from scheduler_core.model.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from scheduler_core.model.names import VOLUME_BINDING
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.volumes import PodVolume
from scheduler_core.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler_core.model.storage_pools import CSIDriver, CSIStorageCapacity
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.volumes.storage import is_of_another

REASONS: Final = (
    Reason("node(s) didn't match PersistentVolume's node affinity", resolvable=False),
    Reason("node(s) didn't find available persistent volumes to bind", resolvable=False),
    Reason("node(s) did not have enough free storage", resolvable=False),
    Reason("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", resolvable=False),
)

_CONFLICT, _NOTHING, _FULL, _GONE = (np.uint64(1 << place) for place in range(4))

# Where Reserve leaves what PreBind writes.
_WRITES: Final = "VolumeBinding.writes"

# Storage that would be emptier is better.
EMPTIER: Final = capacity_ratio([(0, 10), (100, 0)])


class Claims(msgspec.Struct, frozen=True):
    """The claims of a pod: bound ones, and those that wait for their first consumer."""

    bound: tuple[PersistentVolumeClaim, ...]
    waiting: tuple[PersistentVolumeClaim, ...]


class VolumeBinding:
    """Filters by bound claims and by what unbound claims could get; binds unbound claims in PreBind.

    An existing volume is reserved by its claimRef before the pod is bound: the write carries the volume's
    resourceVersion, so that it cannot go to two claims, and nothing is left to chance that would have to be
    waited for (the volume controller completes the claim, the kubelet waits for that). A volume still to be
    provisioned can fail: there the claim gets the selected node, the pod is nominated to that node and waits
    until the claim is bound, which is when it is tried again. A driver may report the space of its pools:
    then a node must reach one that is large enough. Nodes are scored by how full storage would be (`points`).
    """

    name = VOLUME_BINDING
    scope = Scope.CLUSTER
    concerns = staticmethod(has_volumes)

    def __init__(self, points: Points = EMPTIER) -> None:
        self.points = points

    def pre_filter(self, cycle: Cycle) -> Status:
        """SKIP without claims; UNRESOLVABLE for claims that cannot be used, or that others bind first."""
        pod, storage = cycle.pod, cycle.state.storage
        volumes = claim_volumes(pod) if pod.volumes else []
        if not volumes:
            return SKIP
        claims: list[PersistentVolumeClaim] = []
        for volume in volumes:
            claim = find_claim(cycle.state, pod, volume)
            refusal = _unusable(cycle.state, pod, volume, claim)
            if refusal is not None or claim is None:
                return refusal or SKIP
            claims.append(claim)
        waiting = tuple(claim for claim in claims if not claim.bound)
        for claim in waiting:
            found = storage.classes.get(claim.storage_class)
            if claim.volume or found is None or not found.waits:
                return unresolvable("pod has unbound immediate PersistentVolumeClaims")
        cycle.slots[self.name] = Claims(tuple(claim for claim in claims if claim.bound), waiting)
        return SUCCESS

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        if not prepared(self, cycle):
            return np.zeros(len(nodes), dtype=np.uint64)
        claims: Claims = cycle.slots[self.name]
        storage = cycle.state.storage
        conflict: Bool = np.zeros(len(nodes), dtype=np.bool_)  # [M]
        bits: Bits = np.zeros(len(nodes), dtype=np.uint64)  # [M]
        for claim in claims.bound:
            volume = storage.volumes.get(claim.volume)
            if volume is None:
                bits |= _GONE
            else:
                conflict |= ~allowed_by(nodes, volume.terms)
        bits[conflict] |= _CONFLICT
        if claims.waiting:
            bits |= _serve(cycle.state, nodes, claims.waiting)[1]
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The four bits."""
        return REASONS

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """SKIP where no volume is chosen or made."""
        return SUCCESS if self._waiting(cycle) else SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M] 0..100: how empty the chosen volumes, or the pools of volumes to be made, would be."""
        waiting = self._waiting(cycle)
        chosen, _ = _serve(cycle.state, nodes, waiting)
        return score_space(cycle.state.storage, nodes, waiting, chosen, self.points)

    def _waiting(self, cycle: Cycle) -> Sequence[PersistentVolumeClaim]:
        """The claims for which volumes are chosen or made."""
        if not prepared(self, cycle):
            return ()
        claims: Claims = cycle.slots[self.name]
        return claims.waiting

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """Reserve volumes; PENDING with writes if a volume must be provisioned first."""
        claims: Claims | None = cycle.slots.get(self.name)
        if claims is None or not claims.waiting:
            return SUCCESS
        state = cycle.state
        one = NodeView(state.nodes, np.array([slot], dtype=np.int64))
        chosen, _ = _serve(state, one, claims.waiting)
        bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        made: list[PersistentVolumeClaim] = []
        for claim, row in zip(claims.waiting, chosen[:, 0], strict=True):
            volume = state.storage.table.volumes[int(row)] if row != NONE else None
            if volume is None:
                made.append(claim)
            else:
                bindings.append((volume, claim))
        if made:
            return _pending(state.nodes.names[slot], bindings, made)
        for volume, claim in bindings:
            state.storage.assume(volume.name, claim.key, cycle.pod.uid)
        cycle.slots[_WRITES] = _binding_writes(bindings)
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """Release reserved volumes that the API does not show as bound."""
        cycle.state.storage.forget(cycle.pod.uid)

    def pre_bind(self, cycle: Cycle, slot: int) -> Sequence[Write]:
        """The volumes' claimRefs."""
        writes: Sequence[Write] = cycle.slots.get(_WRITES, ())
        return writes

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A node was added or relabelled; a claim, volume, class, driver or pool was added or changed."""
        return Obstacle.VOLUMES.hints(NarrowHint(_may_help, reach_of_claims))


def _may_help(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Besides volumes: any driver, and a pool in which a volume for one of the pod's claims can be made."""
    pool = event.obj
    if not isinstance(pool, CSIStorageCapacity):
        return isinstance(pool, CSIDriver) or volume_may_help(state, pod, event)
    claims = (find_claim(state, pod, volume) for volume in claim_volumes(pod))
    return any(
        claim is not None
        and not claim.volume
        and claim.storage_class == pool.storage_class
        and claim.request <= pool.largest
        for claim in claims
    )


def _unusable(
    state: ClusterState, pod: Pod, volume: PodVolume, claim: PersistentVolumeClaim | None
) -> Status | None:
    """The reason why a pod cannot run with a claim as it is, or None."""
    if claim is None:
        if volume.ephemeral:
            waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            return unresolvable(f'{waiting} "{volume.claim}"')
        return not_found("persistentvolumeclaim", volume.claim)
    if claim.lost:
        gone = f'bound to non-existent persistentvolume "{claim.volume}"'
        return unresolvable(f'persistentvolumeclaim "{claim.name}" {gone}')
    if claim.deleting:
        return unresolvable(f'persistentvolumeclaim "{claim.name}" is being deleted')
    if volume.ephemeral and claim.owner != pod.uid:
        return unresolvable(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")
    named = state.storage.volumes.get(claim.volume)
    if named is not None and is_of_another(named, claim):
        # No kubelet mounts it, and its nodes are nobody's business but its owner's.
        return unresolvable(f'persistentvolumeclaim "{claim.name}" names a volume of another claim')
    return None


def _serve(
    state: ClusterState, nodes: NodeView, waiting: Sequence[PersistentVolumeClaim]
) -> tuple[Int64, Bits]:
    """(int64 [claims, M] rows of existing volumes, uint64 [M] bits of why not every claim can be served).

    A claim with a selected node is being provisioned there, and is matched with no other volume.
    """
    chosen: Int64 = np.full((len(waiting), len(nodes)), NONE, dtype=np.int64)  # [claims, M]
    matched = [i for i, claim in enumerate(waiting) if not claim.selected_node]
    if matched:
        chosen[matched] = match_claims(state.storage, nodes, [waiting[i] for i in matched])
    bits: Bits = np.zeros(len(nodes), dtype=np.uint64)  # [M]
    for i in sorted(range(len(waiting)), key=lambda i: _served_after(waiting[i])):
        claim, there = waiting[i], chosen[i] != NONE
        short: Bool = np.zeros(len(nodes), dtype=np.bool_)  # [M]
        if not there.all():
            made, enough = _can_be_made(state, nodes, claim)
            short = ~there & made & ~enough
            there |= made
        if claim.selected_node:
            slot = state.nodes.slot(claim.selected_node)
            there &= nodes.indices == (NONE if slot is None else slot)
        # As in kube-scheduler, the first claim that a node cannot serve says why.
        bits[(bits == 0) & ~there] = _NOTHING
        bits[(bits == 0) & short] = _FULL
    return chosen, bits


def _served_after(claim: PersistentVolumeClaim) -> tuple[bool, int]:
    """Sorts claims as kube-scheduler looks at them: volumes that are being made, then by size."""
    return (False, 0) if claim.selected_node else (True, claim.request)


def _can_be_made(state: ClusterState, nodes: NodeView, claim: PersistentVolumeClaim) -> tuple[Bool, Bool]:
    """bool [M] twice: nodes for which the claim's class can provision a volume, and that have room for it."""
    storage, everywhere = state.storage, np.ones(len(nodes), dtype=np.bool_)
    made_by = storage.classes.get(claim.storage_class)
    if made_by is None or not made_by.provisions:
        return ~everywhere, everywhere
    allowed = allowed_by(nodes, made_by.topologies or None)
    if not is_limited(storage, made_by):
        return allowed, everywhere
    return allowed, space_for(storage, nodes, claim.storage_class).largest >= claim.request


def _pending(
    node: str,
    bindings: Sequence[tuple[PersistentVolume, PersistentVolumeClaim]],
    made: Sequence[PersistentVolumeClaim],
) -> Status:
    writes = [
        *_binding_writes(bindings),
        *(_select(claim, node) for claim in made if not claim.selected_node),
    ]
    listed = ", ".join(claim.name for claim in made)
    reason = f"waiting for volumes to be provisioned on node {node} for claims: {listed}"
    return Status(Code.PENDING, reason, detail=Preparation(tuple(writes)))


def _binding_writes(bindings: Sequence[tuple[PersistentVolume, PersistentVolumeClaim]]) -> tuple[Write, ...]:
    return tuple(_bind(v, claim) for v, claim in bindings if v.claim != claim.key or v.claim_uid != claim.uid)


def _bind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Patch:
    """Reserve a volume for a claim. One that its owner had reserved already is not ours to release."""
    reference = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
    kind = PERSISTENT_VOLUME_CLAIMS
    body: dict[str, Any] = {
        "spec": {"claimRef": {"apiVersion": kind.api_version, "kind": kind.kind, **reference}}
    }
    if not volume.claim:
        body["metadata"] = {"annotations": {names.BOUND_BY_CONTROLLER_ANNOTATION: "yes"}}
    version = volume.resource_version
    return Patch(PERSISTENT_VOLUMES, "", volume.name, body, uid=volume.uid, resource_version=version)


def _select(claim: PersistentVolumeClaim, node: str) -> Patch:
    """Tell the provisioner for which node a volume is wanted."""
    body = {"metadata": {"annotations": {names.SELECTED_NODE_ANNOTATION: node}}}
    return Patch(
        PERSISTENT_VOLUME_CLAIMS,
        claim.namespace,
        claim.name,
        body,
        uid=claim.uid,
        resource_version=claim.resource_version,
    )
