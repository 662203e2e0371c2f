"""ClusterTopologyPlacementGroup: groups of pods are placed together on the topology tree.

The engine tries a group as one unit (engine.group_cycle): where its members go, who gets which rank and which
groups must make room are not the business of single pods. This plugin says what holds for a single member,
carries the arguments, and names the events that can help a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.hints import Hint
from scheduler_core.framework.interface import PostFilterResult, Scope, Unit
from scheduler_core.framework.members import OWN_GROUP, PlacedTogether
from scheduler_core.framework.obstacles import Obstacle
from scheduler_core.framework.status import SKIP, SUCCESS, Diagnosis, Status, unschedulable
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import Happened
from scheduler_core.state.topology import TopologySettings


class ClusterTopologyPlacementGroup(PlacedTogether):
    """`settings`: where the tree comes from, and how long a search may take."""

    name = "ClusterTopologyPlacementGroup"
    scope = Scope.USAGE

    def __init__(self, settings: TopologySettings | None = None) -> None:
        self.settings = settings or TopologySettings()

    def pre_enqueue(self, state: ClusterState, pod: Pod) -> Status:
        """Pods without their group are let in: their attempt tells them what they wait for."""
        return SUCCESS

    def sort_key(self, unit: Unit) -> tuple[Any, ...]:
        """Highest priority first, a group's own where it has one; then oldest, then by name."""
        return (-unit.priority, unit.created, unit.key)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """A group preempts as a whole; for pods outside groups another plugin answers."""
        return PostFilterResult(unschedulable("left to the group as a whole"))

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """SKIP: members have their node from the group's placement, other pods are not compared by it."""
        return SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """All nodes alike."""
        return np.zeros(len(nodes), dtype=np.int64)  # [M]

    def hints(self) -> Mapping[Happened, Hint | None]:
        """The group or the tree changed, a node did, or pods went that were in the way."""
        return Obstacle.TOPOLOGY.hints(OWN_GROUP) | Obstacle.GROUP.hints(OWN_GROUP)
