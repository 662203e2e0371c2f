"""Lookups of a pod's claims that several volume plugins share, with the messages of kube-scheduler."""

from __future__ import annotations

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import PreFilterPlugin
from scheduler_core.framework.queueing.hints import EVERYBODY, NOBODY, Hint, Reach
from scheduler_core.framework.status import Status, unresolvable
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.volumes import PodVolume
from scheduler_core.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind


def has_volumes(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod has volumes; the volume plugins have nothing to do for other pods."""
    return bool(pod.volumes)


def claim_volumes(pod: Pod) -> list[PodVolume]:
    """The pod's volumes that are claims, generic ephemeral ones included."""
    return [volume for volume in pod.volumes if not volume.disk]


def named_claims(pod: Pod) -> list[PodVolume]:
    """The claims that the pod names itself."""
    return [volume for volume in claim_volumes(pod) if not volume.ephemeral]


def find_claim(state: ClusterState, pod: Pod, volume: PodVolume) -> PersistentVolumeClaim | None:
    """The claim behind a volume of the pod."""
    return state.storage.claims.get(f"{pod.namespace}/{volume.claim}")


def not_found(kind: str, name: str) -> Status:
    """UNRESOLVABLE, with the message of the API server."""
    return unresolvable(f'{kind} "{name}" not found')


def uses_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a claim is one of the pod's."""
    return pod.namespace == claim.namespace and any(v.claim == claim.name for v in claim_volumes(pod))


def prepared(plugin: PreFilterPlugin, cycle: Cycle) -> bool:
    """Whether the data of the plugin's PreFilter is available to its Filter; runs PreFilter if needed.

    Preemption and explanations run every filter, even after another PreFilter ended the attempt. A PreFilter
    that refuses the pod stores no data, and the Filter then has nothing to add.
    """
    if plugin.name not in cycle.slots:
        plugin.pre_filter(cycle)
    return plugin.name in cycle.slots


def claim_may_help(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Hint: a claim of the pod came or changed, unless its volume is still being made."""
    claim = event.obj
    if not isinstance(claim, PersistentVolumeClaim) or not uses_claim(pod, claim):
        return False
    return claim.bound or not claim.selected_node


def hint_of(deleted: Hint, volume: Hint) -> Hint:
    """A hint that asks `deleted` about deleted pods and `volume` about storage objects; the rest may help."""

    def may_help(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        if event.what & EventKind.POD_DELETE:
            return deleted(state, pod, event)
        return volume(state, pod, event) if event.what & EventKind.VOLUME else True

    return may_help


def reach_of_claims(state: ClusterState, event: ClusterEvent) -> Reach:
    """The reach of hints that `claim_may_help` answers for claims: pods of the namespace of a claim.

    What is gone helps nobody, and comes without its object.
    """
    if event.what != EventKind.VOLUME:
        return EVERYBODY
    claim = event.obj
    if isinstance(claim, PersistentVolumeClaim):
        return Reach(namespaces=frozenset({claim.namespace}))
    return EVERYBODY if claim is not None else NOBODY


def volume_may_help(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Hint of plugins that match volumes.

    Events that may help: a node, a claim of the pod, a volume that is free or reserved for one of its claims,
    any class, and a deleted pod with volumes, since those that were chosen for it are free.
    """
    if event.what & EventKind.POD_DELETE:
        return event.pod is None or bool(event.pod.volumes)
    if not event.what & EventKind.VOLUME:
        return True
    obj = event.obj
    if isinstance(obj, PersistentVolume):
        claims = {f"{pod.namespace}/{volume.claim}" for volume in claim_volumes(pod)}
        return not obj.claim or obj.claim in claims
    return isinstance(obj, StorageClass) or claim_may_help(state, pod, event)
