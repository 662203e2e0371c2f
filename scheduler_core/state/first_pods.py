"""Pods that a new state learns all at once: their sums are counted for all of them together.

A pod that comes alone updates a dozen columns and sums by itself. Where a whole list comes before anything
was decided, most of this is the same for many pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import MOST_COUNTED
from scheduler_core.arrays.types import Int32, Int64
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.state.placement import Placement

if TYPE_CHECKING:
    from scheduler_core.state.cluster import ClusterState


class _Shapes:
    """The different requests among some pods, told apart by the objects that hold them."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._numbers: dict[tuple[int, int], int] = {}
        self.requests: list[ResourceList] = []
        self.vectors: list[Int64] = []
        self.nonzero: list[tuple[int, int]] = []

    def number(self, pod: Pod) -> int:
        """The number of a pod's shape; the pod must live as long as this object."""
        key = (id(pod.requests), id(pod.nonzero))
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.requests)
            self.requests.append(pod.requests)
            self.vectors.append(self._state.vector(pod))
            self.nonzero.append(pod.nonzero)
        return found

    def matrix(self) -> Int64:
        """int64 [R, shapes]: the vectors, of equal length."""
        found: Int64 = np.zeros((len(self._state.index), len(self.vectors)), dtype=np.int64)
        for number, vector in enumerate(self.vectors):
            found[: len(vector), number] = vector
        return found

    def most(self) -> int:
        """The largest amount that any of the pods counts with."""
        vectors = max((int(vector.max()) for vector in self.vectors), default=0)
        return max(vectors, max((max(pair) for pair in self.nonzero), default=0))


def place_first_pods(state: ClusterState, pods: Sequence[Pod], now: float) -> list[Pod]:
    """Place the pods that a new state can learn together; gives the others, which `put_pod` must take.

    As `put_pod` of one pod after the other, pods that hold a node first; events are not told.
    """
    if state.pods or state.follows_pods:
        return list(pods)
    bound: dict[str, Pod] = {}
    others: list[Pod] = []
    for pod in pods:
        if pod.assigned and not pod.finished and not pod.terminating and pod.uid not in bound:
            bound[pod.uid] = pod
        else:
            others.append(pod)
    shapes = _Shapes(state)
    numbers = [shapes.number(pod) for pod in bound.values()]
    if not numbers or shapes.most() * len(numbers) >= MOST_COUNTED:
        return list(pods)
    _place(state, list(bound.values()), numbers, shapes, now)
    return others


def _place(state: ClusterState, pods: list[Pod], numbers: list[int], shapes: _Shapes, now: float) -> None:
    """Place pods that no part of the state knows yet."""
    slots: list[int] = [state.nodes.slot_of(pod.node_name) for pod in pods]
    at: Int32 = np.array(slots, dtype=np.int32)  # [P]
    shape: NDArray[np.int64] = np.array(numbers, dtype=np.int64)  # [P]
    requests = shapes.matrix()[:, shape]  # [R, P]
    nonzero: Int64 = np.array(shapes.nonzero, dtype=np.int64).T[:, shape]  # [2, P]
    state.nodes.place_all(pods, at, requests, nonzero)
    first = state.table.add_all(pods, at, requests)
    charges: dict[str, dict[str, ResourceList]] = {}
    vectors, placed, known = shapes.vectors, state.placed, state.pods
    for row, (pod, slot, number) in enumerate(zip(pods, slots, numbers, strict=True), first):
        known[pod.uid] = pod
        placed[pod.uid] = Placement(pod, slot, row, vectors[number], None, now, pod)
        state.gangs.put_pod(pod, None)
        state.neighbours.placed(row, pod, slot)
        if pod.host_ports or pod.volumes:
            state.ports.place(pod, slot)
            state.storage.place(pod, slot)
        charges.setdefault(pod.namespace, {})[pod.uid] = pod.requests
    for namespace, of_namespace in charges.items():
        state.ledger.charge_all(namespace, of_namespace)
    for lost in np.flatnonzero(~state.nodes.ends_pods[at]):
        state.ledger.mark_stranded(pods[lost].namespace, pods[lost].uid, stranded=True)
    state.quota_dirty.update(charges)
