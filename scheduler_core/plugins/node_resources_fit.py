"""NodeResourcesFit: filters by free resources, scores by how much of a node would be allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import MAX_ROWS, MOST_COUNTED, PODS_ROW
from scheduler_core.arrays.types import Int64
from scheduler_core.framework.allocation import LEAST, ResourceScoring
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint, Room, StandingHint, slot_of, unless_known
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.queueing.widest_victims import evictable_requests, freed_by_victims
from scheduler_core.framework.scoring import DEFAULT_RESOURCES, Numbers, used_after
from scheduler_core.framework.status import SUCCESS, Bits, Reason, Status, unresolvable
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import NODE_RESOURCES_FIT
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind

# Bit r: not enough free of resource r; bit r + 32: the node could not take the pod even when empty.
_NEVER_SHIFT = 32


class NodeResourcesFit:
    """`resources` are the (name, weight) pairs that the score looks at, `strategy` is how.

    `ignored` are extended resources that others account for, `ignored_groups` are prefixes of such resources.
    """

    name = NODE_RESOURCES_FIT
    scope = Scope.USAGE

    def __init__(
        self,
        resources: Sequence[tuple[str, int]] = DEFAULT_RESOURCES,
        ignored: Sequence[str] = (),
        ignored_groups: Sequence[str] = (),
        strategy: ResourceScoring = LEAST,
    ) -> None:
        self.resources = tuple(resources)
        self.ignored = frozenset(ignored)
        self.ignored_groups = frozenset(ignored_groups)
        self.strategy = strategy

    def _ignores(self, resource: str) -> bool:
        """Extended resources that an extender or device manager accounts for."""
        if "/" not in resource:
            return False
        return resource in self.ignored or resource.partition("/")[0] in self.ignored_groups

    def pre_filter(self, cycle: Cycle) -> Status:
        """Store the requested rows, without ignored resources.

        A resource without a row is one that no node has, or one beyond the countable number.
        """
        index = cycle.state.index
        for name, value in cycle.pod.requests.items():
            if value and index.row(name) is None and not self._ignores(name):
                return unresolvable(
                    f"no node is known to have {name}, and at most {MAX_ROWS} resources are counted"
                )
        names = cycle.state.index.names
        cycle.slots[self.name] = [
            (row, asked)
            for row, asked in enumerate(cycle.vector.tolist())
            if asked and not self._ignores(names[row])
        ]
        return SUCCESS

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        bits = np.zeros(len(nodes), dtype=np.uint64)  # [M]
        allocatable, requested = nodes.allocatable, nodes.requested
        for row, asked in cycle.slots[self.name]:
            short = allocatable[row] - requested[row] < asked
            # Quicker than `any` for a few nodes and for all.
            if np.count_nonzero(short):
                bits |= short.astype(np.uint64) << np.uint64(row)
                never = asked > allocatable[row]
                bits |= never.astype(np.uint64) << np.uint64(row + _NEVER_SHIFT)
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """Two reasons per resource with one text: resolvable, and not."""
        texts = [
            "Too many pods" if row == PODS_ROW else f"Insufficient {name}"
            for row, name in enumerate(cycle.state.index.names)
        ]
        unused = [Reason("")] * (_NEVER_SHIFT - len(texts))
        return [*(Reason(t) for t in texts), *unused, *(Reason(t, resolvable=False) for t in texts)]

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """Every pod is scored: one that requests nothing counts with kube-scheduler's defaults."""
        return SUCCESS

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M] 0..100: weighted mean of the resources' points."""
        strategy = self.strategy
        total: Numbers | None = None  # [M]
        weights: Int64 | int = 0  # [M], or one number while every resource counts on every node
        for resource, weight in self.resources:
            found = used_after(cycle, nodes, resource, nonzero=True)
            if found is None:
                continue
            row, used = found
            whole = None if strategy.scored_only else nodes.divisor(row)
            if whole is not None:
                points = strategy.points(whole, used)
                weights = weights + weight
            else:
                allocatable = nodes.allocatable[row]
                has = allocatable > 0
                points = np.where(has, strategy.points(np.maximum(allocatable, 1), used), 0)
                weights = weights + weight * (points > 0 if strategy.scored_only else has)
            points = points if weight == 1 else weight * points
            total = points if total is None else total + points
        return np.zeros(len(nodes), dtype=np.int64) if total is None else strategy.mean(total, weights)

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A new node, more allocatable, or a pod that was deleted or requests less."""
        return Obstacle.ROOM.hints(_may_make_room, StandingHint(self._has_room, unless_known, self._room))

    def _has_room(self, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        slot = slot_of(state, event)
        return slot is None or self.has_room_on(state, pod, slot)

    def has_room_on(self, state: ClusterState, pod: Pod, slot: int) -> bool:
        """Whether the pod fits a node, now or after evictions there."""
        asked = state.vector(pod)
        free = self._free_on(state, slot)
        if ((asked <= free) | (asked == 0)).all():
            return True
        free[: len(asked)] += freed_by_victims(state, pod, slot)
        return bool(((asked <= free) | (asked == 0)).all())

    def _room(self, state: ClusterState, event: ClusterEvent) -> Room | None:
        """The room on the node of a deleted pod; None if the node is unknown."""
        slot = slot_of(state, event)
        return None if slot is None else self.room_on(state, slot)

    def room_on(self, state: ClusterState, slot: int) -> Room:
        """The free resources of a node, and those that evictions there may add."""
        return Room(self._free_on(state, slot), slot, partial(evictable_requests, state, slot))

    def _free_on(self, state: ClusterState, slot: int) -> Int64:
        """int64 [R]: what is free on a node; unlimited for resources that others account for."""
        free: Int64 = state.nodes.allocatable[:, slot] - state.nodes.requested[:, slot]  # [R]
        for row, name in enumerate(state.index.names):
            if self._ignores(name):
                free[row] = MOST_COUNTED
        return free


def _may_make_room(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """A node that could take the pod when empty."""
    if event.node is None:
        return True
    return all(event.node.allocatable.get(name, 0) >= value for name, value in pod.requests.items() if value)
