"""The scheduler: objects in, decisions out. Deterministic: same objects, same `now`, same decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.engine.queue import QueuedUnit, SchedulingQueue
from scheduler_core.engine.signature import signature
from scheduler_core.errors import PluginError
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Status
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.names import REASON_SCHEDULER_ERROR, REASON_UNSCHEDULABLE
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.node import Node
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler_core.quota.policy import borrowed
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

# Kinds that are only looked up by plugins, and what a change of one is called.
_LOOKED_UP: Final[Mapping[type, Happened]] = {
    PodDisruptionBudget: Happened.OTHER,
    PersistentVolume: Happened.VOLUME,
    PersistentVolumeClaim: Happened.VOLUME,
    StorageClass: Happened.VOLUME,
    CSINode: Happened.VOLUME,
}


class Scheduler:
    """One queue and one state for all profiles. Only the loop's thread may call it."""

    def __init__(
        self,
        state: ClusterState,
        profiles: Mapping[str, Profile],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
    ) -> None:
        self.state = state
        self.profiles = profiles
        self.cycle = PodCycle(state)
        first = next(iter(profiles.values()))
        self.queue = SchedulingQueue(
            first.queue_sort.sort_key,
            self._gate,
            self._wakes,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
        )

    # Objects come and go

    def put(self, obj: Any, now: float) -> None:
        """An object was added or changed in the API."""
        if isinstance(obj, Pod):
            self._put_pod(obj, now)
        elif isinstance(obj, Node):
            self.tell(self.state.put_node(obj), now)
        elif isinstance(obj, ElasticQuota):
            self.tell(self.state.put_quota(obj), now)
        elif isinstance(obj, Namespace):
            self.tell(self.state.put_namespace(obj), now)
        else:
            self.tell(self.state.put_object(obj, _LOOKED_UP[type(obj)]), now)

    def remove(self, obj: Any, now: float) -> None:
        """An object is gone from the API; `obj` is its last known form."""
        if isinstance(obj, Pod):
            self.queue.remove(obj.uid)
            self.tell(self.state.remove_pod(obj.uid), now)
        elif isinstance(obj, Node):
            self.tell(self.state.remove_node(obj.name), now)
        elif isinstance(obj, ElasticQuota):
            self.tell(self.state.remove_quota(obj), now)
        elif isinstance(obj, Namespace):
            self.tell(self.state.remove_namespace(obj.name), now)
        else:
            self.tell(self.state.remove_object(obj, _LOOKED_UP[type(obj)]), now)

    def _put_pod(self, pod: Pod, now: float) -> None:
        events = self.state.put_pod(pod)
        ours = pod.scheduler_name in self.profiles
        if not ours or pod.assigned or pod.finished or pod.terminating:
            self.queue.remove(pod.uid)
        elif pod.uid not in self.state.placed:
            known = self.queue.get(pod.uid)
            if known is None or _schedules_differently(known, pod):
                self.queue.put(pod, pod.key, pod.created, now)
            else:
                self.queue.refresh(pod)
        self.tell(events, now)

    def tell(self, events: Iterable[ClusterEvent], now: float) -> None:
        """Let cluster events wake what they may help."""
        for event in events:
            self.queue.on_event(event, now)

    def _gate(self, unit: QueuedUnit) -> str:
        for pod in unit.pods.values():
            for plugin in self.profiles[pod.scheduler_name].pre_enqueue:
                if not plugin.pre_enqueue(self.state, pod).ok:
                    return plugin.name
        return ""

    def _wakes(self, unit: QueuedUnit, event: ClusterEvent) -> bool:
        pod = next(iter(unit.pods.values()))
        for plugin in self.profiles[pod.scheduler_name].events:
            if plugin.name not in unit.plugins:
                continue
            for kinds, hint in plugin.hints().items():
                if event.what & kinds and (hint is None or hint(self.state, pod, event)):
                    return True
        return False

    # Decisions

    def step(self, now: float, limit: int | None = None) -> list[Decision]:
        """Try active units, highest first, until none is left or `limit` were tried."""
        decisions: list[Decision] = []
        tried = 0
        while limit is None or tried < limit:
            unit = self.queue.pop(now)
            if unit is None:
                break
            tried += 1
            decisions.extend(self._schedule(unit, now))
        return decisions

    def _schedule(self, unit: QueuedUnit, now: float) -> list[Decision]:
        pod = next(iter(unit.pods.values()))
        profile = self.profiles[pod.scheduler_name]
        try:
            attempt = self.cycle.attempt(profile, pod, now)
            if attempt.slot < 0:
                return self._rejected(unit, pod, profile, attempt, now)
            reserved = self.cycle.reserve(profile, attempt)
        except PluginError as error:
            self.queue.retry(unit, now)
            return [Rejected(pod, profile.name, REASON_SCHEDULER_ERROR, str(error))]
        if isinstance(reserved, Status):
            self.queue.failed(unit, {reserved.plugin}, now)
            return [self._not_reserved(pod, profile, attempt, reserved)]
        self.queue.remove(pod.uid)
        node = self.state.nodes.names[reserved.slot]
        return [Placed(pod, node, profile.name, reserved.bind, reserved.pre_bind, reserved.post_bind)]

    def _not_reserved(self, pod: Pod, profile: Profile, attempt: Attempt, status: Status) -> Rejected:
        """A node was found, but a plugin refused it or has to prepare something for the pod there first."""
        if not isinstance(status.detail, Preparation):
            return Rejected(pod, profile.name, REASON_UNSCHEDULABLE, status.reason)
        node = self.state.nodes.names[attempt.slot]
        self.state.nominations.put(pod, node, attempt.cycle.vector)
        return Rejected(
            pod, profile.name, REASON_UNSCHEDULABLE, status.reason, None, node, status.detail.writes
        )

    def _rejected(
        self, unit: QueuedUnit, pod: Pod, profile: Profile, attempt: Attempt, now: float
    ) -> list[Decision]:
        diagnosis, result = attempt.diagnosis, attempt.post_filter
        if diagnosis is None:
            raise ValueError("an attempt without a node has a diagnosis")
        self.queue.failed(unit, diagnosis.plugins, now)
        evicted: list[Decision] = []
        if result is not None:
            victims = frozenset(victim.uid for victim in result.victims)
            self.state.nominations.put(pod, result.nominated, attempt.cycle.vector, victims)
            for victim in result.victims:
                self.state.condemn(victim.uid)
                text = eviction_message(self.state, pod, victim, result.nominated)
                evicted.append(Evicted(victim, pod, profile.name, text))
        elif not self._waits_for_victims(pod):
            self.state.nominations.remove(pod.uid)
        nomination = self.state.nominations.get(pod.uid)
        nominated = nomination.node if nomination is not None else ""
        message = diagnosis.message
        return [*evicted, Rejected(pod, profile.name, REASON_UNSCHEDULABLE, message, diagnosis, nominated)]

    def _waits_for_victims(self, pod: Pod) -> bool:
        nomination = self.state.nominations.get(pod.uid)
        if nomination is None:
            return False
        slot = self.state.nodes.slot(nomination.node)
        usable = slot is not None and bool(self.state.nodes.alive[slot])
        return usable and any(uid in self.state.placed for uid in nomination.victims)

    def bind_failed(self, pod: Pod, now: float) -> None:
        """The API refused a binding: take the reservation back and try the pod again after its backoff."""
        placement = self.state.placed.get(pod.uid)
        if placement is None or not placement.assumed:
            return
        profile = self.profiles[pod.scheduler_name]
        attempt = Attempt(self.cycle.new_cycle(profile, placement.pod, now), placement.slot)
        current = placement.pod
        events = self.cycle.unreserve(profile, attempt.cycle, attempt.slot)
        self.queue.put(current, current.key, current.created, now)
        self.tell(events, now)


def eviction_message(state: ClusterState, preemptor: Pod, victim: Pod, node: str) -> str:
    """Why a victim goes: the preemptor, its quota, what the victim's quota borrows (reference, rule 14)."""
    text = f"preempted by {preemptor.key} (priority {preemptor.priority}) for node {node}"
    own, other = state.ledger.quota_of(preemptor.namespace), state.ledger.quota_of(victim.namespace)
    if own is None or other is None:
        return text
    if own is other:
        return f"{text}, under ElasticQuota {own.key}"
    amounts = borrowed(state.ledger, other)
    parts = ", ".join(f"{name}={format_resource(name, value)}" for name, value in amounts.items())
    return (
        f"{text}, which reclaims the min of ElasticQuota {own.key}; ElasticQuota {other.key} borrows {parts}"
    )


def _schedules_differently(old: Pod, new: Pod) -> bool:
    """Whether a newer form of a waiting pod may be decided differently: worth another try."""
    return old.gates != new.gates or signature(old, labels_matter=True) != signature(new, labels_matter=True)
