"""The stored pods whose own words name their group, as a watch of the webhook's mark on them shows them.

Anybody who may write pods may set the mark: what counts is what the stored pod says.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.decoding import decode_deep, decoder
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import ApiObject, OwnerReference, decode
from scheduler_core.model.names import GANG_LABEL, GANG_OF_POD, GROUP_NAME_ANNOTATION
from webhook.owner_gangs.finder import GangFinder
from webhook.owner_gangs.gang import OwnerGang
from webhook.policy.pod_group_membership import is_group_name
from webhook.view.owners import possible_controller

SELECTOR: Final = f"{GANG_LABEL}={GANG_OF_POD}"

_any: Final = decoder(Any)

# Namespace and name of a group.
GroupKey = tuple[str, str]


class StoredPod(msgspec.Struct, frozen=True):
    """A stored pod with the mark. `group` is that of its annotation, empty without; `told` is the gang of its
    own words, None where they do not make this group. `created` is in seconds since the epoch.
    """

    namespace: str
    name: str
    uid: str
    created: float
    group: str
    controller: OwnerReference | None
    told: OwnerGang | None

    @property
    def age_order(self) -> tuple[float, str]:
        """Greater for a later pod; the same on every replica."""
        return self.created, self.uid


def stored_pod_parser(finder: GangFinder) -> Callable[[msgspec.Raw], StoredPod]:
    """The parser of the watch; it raises ModelError."""

    def parse(raw: msgspec.Raw) -> StoredPod:
        meta = decode(raw, ApiObject, PODS.kind).metadata
        group = (meta.annotations or {}).get(GROUP_NAME_ANNOTATION, "")
        group = group if is_group_name(group) else ""
        told = finder.told(meta.namespace, decode_deep(_any, raw)) if group else None
        return StoredPod(
            meta.namespace,
            meta.name,
            meta.uid,
            meta.created,
            group,
            possible_controller(meta),
            told if told is not None and told.name == group else None,
        )

    return parse


class GroupPods(NamedTuple):
    """What the pods of one group say: the latest of them, and their controllers."""

    latest: StoredPod
    controllers: tuple[OwnerReference, ...]


class _Members:
    """The pods of one group, by name."""

    def __init__(self) -> None:
        self.pods: dict[str, StoredPod] = {}
        self.controllers: Counter[OwnerReference] = Counter()
        # None where the latest one went and nobody has asked since.
        self.latest: StoredPod | None = None

    def put(self, pod: StoredPod) -> None:
        self.pods[pod.name] = pod
        if pod.controller is not None:
            self.controllers[pod.controller] += 1
        if len(self.pods) == 1 or (self.latest is not None and pod.age_order >= self.latest.age_order):
            self.latest = pod

    def remove(self, pod: StoredPod) -> None:
        del self.pods[pod.name]
        if pod.controller is not None:
            self.controllers[pod.controller] -= 1
            if not self.controllers[pod.controller]:
                del self.controllers[pod.controller]
        if self.latest is pod:
            self.latest = None

    def view(self) -> GroupPods:
        if self.latest is None:
            self.latest = max(self.pods.values(), key=lambda pod: pod.age_order)
        return GroupPods(self.latest, tuple(self.controllers))


class StoredPods:
    """The stored pods by group, and the groups that somebody has to look at. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pods: dict[str, StoredPod] = {}
        self._groups: dict[GroupKey, _Members] = {}
        # In the order in which they became due.
        self._due: dict[GroupKey, None] = {}

    def sink(self, event: Event) -> None:
        """Take one change of a pod with the mark; called on the reflector's thread."""
        if not event.key:
            return
        with self._changed:
            old = self._pods.get(event.key)
            if old is not None and old == event.obj:
                return
            if old is not None:
                del self._pods[event.key]
                self._take_out(old)
            if event.obj is not None and event.obj.group:
                self._put(event.key, event.obj)
            self._changed.notify()

    def _put(self, key: str, pod: StoredPod) -> None:
        self._pods[key] = pod
        group = (pod.namespace, pod.group)
        self._groups.setdefault(group, _Members()).put(pod)
        self._due[group] = None

    def _take_out(self, pod: StoredPod) -> None:
        group = (pod.namespace, pod.group)
        members = self._groups[group]
        members.remove(pod)
        if not members.pods:
            del self._groups[group]
            self._due.pop(group, None)
        elif members.latest is None:
            self._due[group] = None

    def wait(self, seconds: float) -> None:
        """Return when a group is due, after this time at most, or when somebody calls `wake`."""
        with self._changed:
            if not self._due:
                self._changed.wait(seconds)

    def wake(self) -> None:
        """End a wait."""
        with self._changed:
            self._changed.notify_all()

    def take_due(self) -> list[GroupKey]:
        """The groups whose pods changed, or that somebody put back; they are not due afterwards."""
        with self._changed:
            due = list(self._due)
            self._due.clear()
        return due

    def put_back(self, groups: list[GroupKey]) -> None:
        """Make these groups due again."""
        with self._changed:
            self._due.update(dict.fromkeys(groups))

    def groups(self) -> list[GroupKey]:
        """All groups that have pods."""
        with self._changed:
            return list(self._groups)

    def of(self, group: GroupKey) -> GroupPods | None:
        """What the pods of a group say; None where it has none."""
        with self._changed:
            members = self._groups.get(group)
            return members.view() if members is not None else None
