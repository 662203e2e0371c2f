"""What the started pods of one node ask for, as its agent counts it."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.objects import Obj
from scheduler_core.model.requests import requests_of

Key = tuple[str, str]
"""Namespace and name of a pod."""


def asked_by(pod: Obj) -> dict[str, int]:
    """Effective requests of a pod, itself included as one of `pods`."""
    return {**requests_of(pod), "pods": 1}


class NodeUse:
    """Sums per resource over the pods that were put and not dropped."""

    def __init__(self) -> None:
        self._pods: dict[Key, dict[str, int]] = {}
        self._total: dict[str, int] = {}

    def shortage(
        self, asked: Mapping[str, int], capacity: Mapping[str, int]
    ) -> tuple[str, int, int, int] | None:
        """The first resource that does not suffice: name, asked, used, capacity. None if all do."""
        for resource, amount in asked.items():
            used = self._total.get(resource, 0)
            if amount and used + amount > capacity.get(resource, 0):
                return resource, amount, used, capacity.get(resource, 0)
        return None

    def put(self, key: Key, asked: dict[str, int]) -> None:
        """Count a pod, in place of what it asked before."""
        self.drop(key)
        self._pods[key] = asked
        for resource, amount in asked.items():
            self._total[resource] = self._total.get(resource, 0) + amount

    def drop(self, key: Key) -> None:
        """A pod has ended; unknown pods are ignored."""
        for resource, amount in self._pods.pop(key, {}).items():
            self._total[resource] -= amount
