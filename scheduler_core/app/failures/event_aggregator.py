"""Event aggregation, as in client-go: many pods that wait for the same reason share one event.

The first few pods have their own events. The shared event is about the object that a user describes when many
pods wait: the pods' group, else the quota of their namespace, else their controller.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler_core.app.failures.rejections import PodRejection
from scheduler_core.kube.writes.correlator import ObjectReference, shape
from scheduler_core.model.groups.gang import RESOURCES, group_of
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState

# Pods per controller and reason that have their own events.
MAX_OWN_EVENTS: Final = 10
# Pods that follow within this time are counted in the first shared event.
FIRST_SECONDS: Final = 2.0
REPEAT_SECONDS: Final = 60.0
_CHECK_SECONDS: Final = 1.0
# Interval of pruning for targets with many pods; small ones are pruned at every check.
_PRUNE_SECONDS: Final = 60.0
_SMALL: Final = 64
_SWEPT_AT_ONCE: Final = 8

Key = tuple[str, str, str]


def pod_reference(pod: Pod) -> ObjectReference:
    """Reference to a pod for an event."""
    return ObjectReference("v1", "Pod", pod.namespace, pod.name, pod.uid)


def aggregation_object(state: ClusterState, pod: Pod) -> ObjectReference | None:
    """The object of shared events about pods like this one; None for a pod that stands alone."""
    ref = group_of(pod)
    gang = state.gangs.gangs.get(ref.key) if ref is not None else None
    if ref is not None and gang is not None and (resource := RESOURCES.get(ref.dialect)) is not None:
        return ObjectReference(resource.api_version, resource.kind, ref.namespace, ref.name, gang.uid)
    quota = state.ledger.quota_of(pod.namespace)
    if quota is not None:
        kind = ELASTIC_QUOTAS
        return ObjectReference(kind.api_version, kind.kind, quota.namespace, quota.name, quota.uid)
    owner = pod.controller
    if owner is None:
        return None
    return ObjectReference(owner.api_version, owner.kind, pod.namespace, owner.name, owner.uid)


class AggregatedEvent(NamedTuple):
    """One event for many pods."""

    regarding: ObjectReference
    event: str
    profile: str
    note: str


class _SimilarPods:
    """Pods by uid that wait for the same reason; `own_events` are the pods with their own events, by
    controller.
    """

    __slots__ = ("event", "members", "message", "own_event_count", "own_events", "profile")

    def __init__(self) -> None:
        self.event = self.profile = self.message = ""
        self.members: set[str] = set()
        self.own_events: dict[str, str] = {}
        self.own_event_count: Counter[str] = Counter()

    def remove(self, uid: str) -> None:
        """The pod no longer waits, or waits for another reason."""
        self.members.discard(uid)
        owner = self.own_events.pop(uid, None)
        if owner is not None:
            self.own_event_count[owner] -= 1


class _Target:
    """The pods of one object, by event and shape of the message; `due` is the time of the next shared event,
    if any.
    """

    __slots__ = ("by_message", "due", "pruned_at", "recorded_at", "regarding", "text")

    def __init__(self, regarding: ObjectReference | None) -> None:
        self.regarding = regarding
        self.by_message: dict[tuple[str, str], _SimilarPods] = {}
        self.due: float | None = None
        self.pruned_at = self.recorded_at = float("-inf")
        self.text = ""

    @property
    def size(self) -> int:
        """The number of known pods."""
        return sum(len(similar.members) for similar in self.by_message.values())


class EventAggregator:
    """For the loop's thread only.

    `regarding` returns the object of shared events about a pod; `waiting` returns a pod while it waits.
    """

    def __init__(
        self, regarding: Callable[[Pod], ObjectReference | None], waiting: Callable[[str], Pod | None]
    ) -> None:
        self._regarding = regarding
        self._waiting = waiting
        # The target that was pruned longest ago comes first.
        self._targets: OrderedDict[Key, _Target] = OrderedDict()
        self._of: dict[str, tuple[_Target, _SimilarPods]] = {}
        self._due: dict[Key, _Target] = {}
        self._next_check = float("-inf")

    def __len__(self) -> int:
        """The number of known pods."""
        return len(self._of)

    def add(self, pod: Pod, rejection: PodRejection, event: str, profile: str, now: float) -> bool:
        """Add a pod that waits; True if it has its own events."""
        regarding = self._regarding(pod)
        key = (
            (pod.namespace, regarding.kind, regarding.uid or regarding.name)
            if regarding
            else (pod.namespace, "", "")
        )
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = _Target(regarding)
        kind = event, shape(rejection.message)
        similar = target.by_message.get(kind)
        if similar is None:
            similar = target.by_message[kind] = _SimilarPods()
        similar.event, similar.profile, similar.message = event, profile, rejection.message
        if pod.uid in similar.members:
            return pod.uid in similar.own_events
        _, before = self._of.get(pod.uid, (None, None))
        if before is not None:
            before.remove(pod.uid)
        self._of[pod.uid] = target, similar
        similar.members.add(pod.uid)
        owner = pod.controller.uid if pod.controller is not None else ""
        if similar.own_event_count[owner] >= MAX_OWN_EVENTS:
            self._prune(target, now)
        if similar.own_event_count[owner] < MAX_OWN_EVENTS:
            similar.own_events[pod.uid] = owner
            similar.own_event_count[owner] += 1
            return True
        if target.due is None:
            target.due = max(now + FIRST_SECONDS, target.recorded_at + REPEAT_SECONDS)
        self._due[key] = target
        return False

    def next_time(self) -> float | None:
        """When `due` may return events, or None."""
        return self._next_check if self._due else None

    def due(self, now: float) -> list[AggregatedEvent]:
        """The shared events to record now."""
        if now < self._next_check:
            return []
        self._next_check = now + _CHECK_SECONDS
        found = []
        for key, target in [(key, target) for key, target in self._due.items() if (target.due or 0.0) <= now]:
            del self._due[key]
            target.due, target.pruned_at = None, float("-inf")
            self._prune(target, now)
            summary = self._summary(target)
            if summary is not None and summary.note != target.text:
                target.text, target.recorded_at = summary.note, now
                found.append(summary)
        self._sweep(now)
        return found

    def _summary(self, target: _Target) -> AggregatedEvent | None:
        large = [
            similar
            for similar in target.by_message.values()
            if len(similar.members) > len(similar.own_events)
        ]
        if not large:
            return None
        large.sort(key=lambda similar: -len(similar.members))
        pod = self._waiting(next(iter(large[0].members)))
        regarding = target.regarding or (pod_reference(pod) if pod is not None else None)
        if regarding is None:
            return None
        note = "; ".join(f"{len(similar.members)} pods wait: {similar.message}" for similar in large)
        return AggregatedEvent(regarding, large[0].event, large[0].profile, note)

    def _prune(self, target: _Target, now: float) -> None:
        """Forget pods that no longer wait."""
        wait = _CHECK_SECONDS if target.size <= _SMALL else _PRUNE_SECONDS
        if now < target.pruned_at + wait:
            return
        target.pruned_at = now
        for similar in target.by_message.values():
            for uid in [uid for uid in similar.members if self._waiting(uid) is None]:
                similar.remove(uid)
                del self._of[uid]
        target.by_message = {key: similar for key, similar in target.by_message.items() if similar.members}

    def _sweep(self, now: float) -> None:
        """Prune a few more targets, so that each is forgotten at some time."""
        for _ in range(min(_SWEPT_AT_ONCE, len(self._targets))):
            key, target = next(iter(self._targets.items()))
            self._targets.move_to_end(key)
            self._prune(target, now)
            if not target.by_message and target.recorded_at + REPEAT_SECONDS <= now:
                del self._targets[key]
                self._due.pop(key, None)
