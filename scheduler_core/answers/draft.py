"""A cluster with some changes that are being put together; each sees those before it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.why.subject import pods_of_owner
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.simulate.objects import Key, key_of
from scheduler_core.simulate.world import Simulation

T = TypeVar("T")
Object = dict[str, Any]


class Draft:
    """Changes of a cluster, one after the other. The cluster itself is not changed."""

    def __init__(self, base: Simulation) -> None:
        self.base = base
        self._objects: dict[Key, Object | None] = {}
        self._texts: list[str] = []
        self._notes: list[str] = []

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """A copy of an object as it is after the changes so far; None if there is none."""
        key = (kind, namespace, name)
        found = self._objects[key] if key in self._objects else self.base.objects.get(key)
        return copy.deepcopy(found)

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """The same for a kind in any case and of any API group; Muster's own group first."""
        kinds = {
            key[0] for key in (*self.base.objects.keys(), *self._objects) if key[1:] == (namespace, name)
        }
        same = sorted(found for found in kinds if found.partition(".")[0].lower() == kind.lower())
        found = (self.get(one, namespace, name) for one in same)
        return next((obj for obj in found if obj is not None), None)

    def put(self, obj: Object) -> None:
        """Add or replace an object."""
        self._objects[key_of(obj)] = obj

    def remove(self, obj: Object) -> None:
        """Remove an object."""
        self._objects[key_of(obj)] = None

    def tell(self, text: str) -> None:
        """Say what is supposed, in one line."""
        self._texts.append(text)

    def note(self, text: str) -> None:
        """Say what would stand in the way of the changes in the cluster itself, in one line."""
        self._notes.append(text)

    def drafted(self, kind: str) -> list[Object]:
        """Copies of the objects of a kind that the changes add or replace."""
        return [
            copy.deepcopy(obj) for key, obj in self._objects.items() if key[0] == kind and obj is not None
        ]

    def parsed(self, kind: str, parse: Callable[[Object], T]) -> Iterator[T]:
        """The objects of a kind, parsed. Those of the cluster that cannot be read are left out."""
        for key, known in self.base.known.items():
            if key[0] == kind and key not in self._objects:
                yield known
        yield from map(parse, self.drafted(kind))

    def all(self, kind: str) -> list[Object]:
        """Copies of the objects of a kind."""
        known = dict.fromkeys((*self.base.objects.keys(), *self._objects))
        keys = [key for key in known if key[0] == kind]
        found = (self.get(*key) for key in keys)
        return [obj for obj in found if obj is not None]

    def pods(self) -> Iterator[Pod]:
        """The pods, parsed."""
        drafted = {key: obj for key, obj in self._objects.items() if key[0] == "Pod"}
        for pod in self.base.state.pods.values():
            if ("Pod", pod.namespace, pod.name) not in drafted:
                yield pod
        yield from (parse_pod(obj, self.base.rule) for obj in drafted.values() if obj is not None)

    def pods_on(self, node: str) -> list[Object]:
        """Copies of the pods on a node that have not ended."""
        return self.raw_pods(pod for pod in self.pods() if pod.node_name == node and not pod.finished)

    def pods_of(self, kind: str, namespace: str, name: str) -> list[Pod]:
        """The pods of an owner."""
        return pods_of_owner(self.pods(), kind, namespace, name)

    def raw_pods(self, pods: Iterable[Pod]) -> list[Object]:
        """Copies of the objects of pods."""
        found = (self.get("Pod", pod.namespace, pod.name) for pod in pods)
        return [obj for obj in found if obj is not None]

    def quota_of(self, namespace: str) -> Object | None:
        """A copy of the quota that binds in a namespace: the one that binds now, else the first new one."""
        bound = self.base.state.ledger.quota_of(namespace)
        found = self.get("ElasticQuota", namespace, bound.name) if bound is not None else None
        if found is not None:
            return found
        return next((obj for obj in self.all("ElasticQuota") if key_of(obj)[1] == namespace), None)

    def changes(self) -> Changes:
        """All changes so far."""
        create: list[Object] = []
        update: list[Object] = []
        delete: list[Object] = []
        for key, obj in self._objects.items():
            before = self.base.objects.get(key)
            if before is not None and (obj is None or _is_another(before, obj)):
                delete.append(before)
                before = None
            if obj is not None:
                (create if before is None else update).append(obj)
        told = tuple(self._texts), tuple(self._notes)
        return Changes(tuple(create), tuple(update), tuple(delete), None, *told)


def _is_another(before: Object, obj: Object) -> bool:
    """Whether an object of the same name takes the place of one that is gone."""
    return obj["metadata"].get("uid", before["metadata"].get("uid")) != before["metadata"].get("uid")
