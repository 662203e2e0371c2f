"""Queueing hints: decide whether an event may help a pod that a plugin refused.

A hint is called for every waiting pod, of which there may be a hundred thousand. It can therefore say in
advance which pods an event concerns at most (`Reach`), and how much room came free (`Room`). The queue looks
these up in an index and calls the hint for no other pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler_core.arrays.types import Int64
from scheduler_core.model.node_metric import NodeMetric
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent

# Whether an event may help a pod that a plugin refused.
Hint = Callable[[ClusterState, Pod, ClusterEvent], bool]


class Band(msgspec.Struct, frozen=True, eq=False):
    """Requests that fit `most` and do not fit `least`, int64 [R] each, by row of the resource index."""

    most: Int64
    least: Int64


class Neighbour(msgspec.Struct, frozen=True, eq=False):
    """What rules of other pods select a placed pod by."""

    namespace: str
    labels: Mapping[str, str]


class Reach(msgspec.Struct, frozen=True):
    """The pods that an event can concern at most: all pods, or the union of the pods of some namespaces, the
    members of a group (its key), the nominated pods, and those with required affinity, anti-affinity or
    spread constraints about a pod in `near`.

    With a `band`, of the pods of the namespaces only those whose requests are in it, and members of groups.
    """

    everybody: bool = False
    namespaces: frozenset[str] = frozenset()
    group: str = ""
    nominated: bool = False
    band: Band | None = None
    near: tuple[Neighbour, ...] = ()


EVERYBODY: Final = Reach(everybody=True)
NOMINATED: Final = Reach(nominated=True)
NOBODY: Final = Reach()


class EvictableRequests(msgspec.Struct, frozen=True, eq=False):
    """Requests of the pods of a node that might be evicted: `priorities` int64 [K], ascending; `held` int64
    [R, K + 1], the sum over the first 0 to K pods; `leaving` int64 [R], the part of leaving pods.

    `namespaces` int64 [K]: ids in the pod table, if known. Then a pod that may reclaim, which takes pods of
    other namespaces whatever their priority, counts those of its own below its priority alone.
    """

    priorities: Int64
    held: Int64
    leaving: Int64
    namespaces: Int64 | None = None


# Called with a priority and a flag: requests of the node's pods below the priority, or of all pods if the
# flag is set; None if no pod can be evicted.
FindEvictableRequests = Callable[[int, bool], EvictableRequests | None]


class Room(msgspec.Struct, frozen=True, eq=False):
    """Free resources, int64 [R] by row of the resource index; a pod that requests more is not helped.

    `slot` is the node, or None; `evictable` is what evictions there may add. Where `lowest` (int64 by
    namespace id of the pod table) is below a pod's priority, evictions elsewhere may help as well.
    """

    free: Int64
    slot: int | None = None
    evictable: FindEvictableRequests | None = None
    lowest: Int64 | None = None


def to_all_pods(state: ClusterState, event: ClusterEvent) -> Reach:
    """The default reach of a hint: all pods."""
    return EVERYBODY


def slot_of(state: ClusterState, event: ClusterEvent) -> int | None:
    """The slot of the node of a deleted pod, or of the report of a node; None if the node is unknown."""
    if event.pod is not None:
        return state.nodes.slot(event.pod.node_name)
    return state.nodes.slot(event.obj.name) if isinstance(event.obj, NodeMetric) else None


def unless_known(state: ClusterState, event: ClusterEvent) -> Reach:
    """The reach of a hint about freed room: all pods if the node is unknown."""
    return EVERYBODY if slot_of(state, event) is None else NOBODY


class NarrowHint(msgspec.Struct, frozen=True):
    """A hint with a bound: `reach` contains every pod for which `accepts` may return True."""

    accepts: Hint
    reach: Callable[[ClusterState, ClusterEvent], Reach] = to_all_pods

    def __call__(self, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        """Whether the event may help the pod."""
        return self.accepts(state, pod, event)


class StandingHint(msgspec.Struct, frozen=True):
    """A hint that depends on the state alone: whether the room that came free still suffices.

    It is evaluated again when the pod is next in the queue; another pod may have taken the room by then.
    Where `room` gives the free amount, `reach` are pods that the event concerns although they request more.
    """

    so: Hint
    reach: Callable[[ClusterState, ClusterEvent], Reach] = to_all_pods
    room: Callable[[ClusterState, ClusterEvent], Room | None] | None = None

    def __call__(self, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        """Whether the room suffices now."""
        return self.so(state, pod, event)
