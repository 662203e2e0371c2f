"""Who waits for the same reason in one place: the first few have events of their own, the others one for all.

The place is what `kubectl describe` is asked about when much waits: the pods' group, else the quota of their
namespace, else their controller.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler_core.app.rejections import Said, shape
from scheduler_core.kube.correlator import ObjectReference
from scheduler_core.model.gang import RESOURCES, group_of
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState

# Pods of one controller that are told of one by one, while they wait for the same reason.
FEW: Final = 10
# Others follow in the first moments, and are counted with it.
SOON_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 1.0
# Large crowds are gone through so seldom, small ones at every look.
_PRUNE_SECONDS: Final = 60.0
_SMALL: Final = 64
_SWEPT_AT_ONCE: Final = 8

Key = tuple[str, str, str]


def pod_reference(pod: Pod) -> ObjectReference:
    """The pod as an event's object."""
    return ObjectReference("v1", "Pod", pod.namespace, pod.name, pod.uid)


def home_of(state: ClusterState, pod: Pod) -> ObjectReference | None:
    """Where it is told of many pods like this one; None of pods that stand alone."""
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


class Summary(NamedTuple):
    """One event for many pods."""

    regarding: ObjectReference
    event: str
    profile: str
    note: str


class _Crowd:
    """Pods by uid that wait for one reason; `told` have events of their own, by controller."""

    __slots__ = ("event", "members", "message", "profile", "told", "told_of")

    def __init__(self) -> None:
        self.event = self.profile = self.message = ""
        self.members: set[str] = set()
        self.told: dict[str, str] = {}
        self.told_of: Counter[str] = Counter()

    def leave(self, uid: str) -> None:
        """It waits no more, or for another reason."""
        self.members.discard(uid)
        owner = self.told.pop(uid, None)
        if owner is not None:
            self.told_of[owner] -= 1


class _Place:
    """The crowds of one object, by event and shape of the message; `due` for an event of all, or not."""

    __slots__ = ("crowds", "due", "home", "pruned", "text", "told")

    def __init__(self, home: ObjectReference | None) -> None:
        self.home = home
        self.crowds: dict[tuple[str, str], _Crowd] = {}
        self.due: float | None = None
        self.pruned = self.told = float("-inf")
        self.text = ""

    @property
    def size(self) -> int:
        """How many pods are known here."""
        return sum(len(crowd.members) for crowd in self.crowds.values())


class Crowds:
    """For the loop's thread alone. `home`: where many pods are told of; `waiting`: a pod while it waits."""

    def __init__(
        self, home: Callable[[Pod], ObjectReference | None], waiting: Callable[[str], Pod | None]
    ) -> None:
        self._home = home
        self._waiting = waiting
        # The one that was gone through longest ago first.
        self._places: OrderedDict[Key, _Place] = OrderedDict()
        self._of: dict[str, tuple[_Place, _Crowd]] = {}
        self._due: dict[Key, _Place] = {}
        self._next_look = float("-inf")

    def __len__(self) -> int:
        """Pods that are known."""
        return len(self._of)

    def enter(self, pod: Pod, said: Said, event: str, profile: str, now: float) -> bool:
        """A pod waits; whether it has events of its own."""
        home = self._home(pod)
        key = (pod.namespace, home.kind, home.uid or home.name) if home else (pod.namespace, "", "")
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(home)
        kind = event, shape(said.message)
        crowd = place.crowds.get(kind)
        if crowd is None:
            crowd = place.crowds[kind] = _Crowd()
        crowd.event, crowd.profile, crowd.message = event, profile, said.message
        if pod.uid in crowd.members:
            return pod.uid in crowd.told
        _, before = self._of.get(pod.uid, (None, None))
        if before is not None:
            before.leave(pod.uid)
        self._of[pod.uid] = place, crowd
        crowd.members.add(pod.uid)
        owner = pod.controller.uid if pod.controller is not None else ""
        if crowd.told_of[owner] >= FEW:
            self._prune(place, now)
        if crowd.told_of[owner] < FEW:
            crowd.told[pod.uid] = owner
            crowd.told_of[owner] += 1
            return True
        if place.due is None:
            place.due = max(now + SOON_SECONDS, place.told + AGAIN_SECONDS)
        self._due[key] = place
        return False

    def next_time(self) -> float | None:
        """When `due` may have something to say, or None."""
        return self._next_look if self._due else None

    def due(self, now: float) -> list[Summary]:
        """What is to be told of crowds now."""
        if now < self._next_look:
            return []
        self._next_look = now + _LOOK_SECONDS
        found = []
        for key, place in [(key, place) for key, place in self._due.items() if (place.due or 0.0) <= now]:
            del self._due[key]
            place.due, place.pruned = None, float("-inf")
            self._prune(place, now)
            summary = self._summary(place)
            if summary is not None and summary.note != place.text:
                place.text, place.told = summary.note, now
                found.append(summary)
        self._sweep(now)
        return found

    def _summary(self, place: _Place) -> Summary | None:
        large = [crowd for crowd in place.crowds.values() if len(crowd.members) > len(crowd.told)]
        if not large:
            return None
        large.sort(key=lambda crowd: -len(crowd.members))
        pod = self._waiting(next(iter(large[0].members)))
        regarding = place.home or (pod_reference(pod) if pod is not None else None)
        if regarding is None:
            return None
        note = "; ".join(f"{len(crowd.members)} pods wait: {crowd.message}" for crowd in large)
        return Summary(regarding, large[0].event, large[0].profile, note)

    def _prune(self, place: _Place, now: float) -> None:
        """Forget those who wait no more."""
        wait = _LOOK_SECONDS if place.size <= _SMALL else _PRUNE_SECONDS
        if now < place.pruned + wait:
            return
        place.pruned = now
        for crowd in place.crowds.values():
            for uid in [uid for uid in crowd.members if self._waiting(uid) is None]:
                crowd.leave(uid)
                del self._of[uid]
        place.crowds = {key: crowd for key, crowd in place.crowds.items() if crowd.members}

    def _sweep(self, now: float) -> None:
        """Go through a few places more, so that none is remembered for ever."""
        for _ in range(min(_SWEPT_AT_ONCE, len(self._places))):
            key, place = next(iter(self._places.items()))
            self._places.move_to_end(key)
            self._prune(place, now)
            if not place.crowds and place.told + AGAIN_SECONDS <= now:
                del self._places[key]
                self._due.pop(key, None)
