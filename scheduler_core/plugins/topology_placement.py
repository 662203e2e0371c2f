"""ClusterTopologyPlacementGroup: groups of pods are placed together on the topology tree.

The engine schedules a group as one unit (engine.gang.topology_cycle), with its placement, ranks and
preemption. This plugin checks a single member, carries the arguments, and registers the events that can help
a group. Its filter keeps the members of a native group with a topology key in the domain that the engine
chose, whoever asks: the cycle of the gang, of a single member, or the search for victims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.gang_members import OWN_GROUP, PlacedTogether
from scheduler_core.framework.interface import PostFilterResult, Scope, Unit
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Diagnosis, Reason, Status, unschedulable
from scheduler_core.framework.view import NodeView
from scheduler_core.model.groups.gang import group_key
from scheduler_core.model.names import CLUSTER_TOPOLOGY_PLACEMENT_GROUP
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.topology import TopologySettings


class ClusterTopologyPlacementGroup(PlacedTogether):
    """`settings`: where the tree comes from, and how long a search may take."""

    name = CLUSTER_TOPOLOGY_PLACEMENT_GROUP
    scope = Scope.CLUSTER

    def __init__(self, settings: TopologySettings | None = None) -> None:
        self.settings = settings or TopologySettings()

    def pre_enqueue(self, state: ClusterState, pod: Pod) -> Status:
        """SUCCESS also for pods whose group does not exist: their attempt reports what they wait for."""
        return SUCCESS

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Members of native groups that have a domain; other members have nothing to do one by one."""
        return bool(pod.native_group) and group_key(pod) in state.topology.chosen

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]: nodes outside the domain of the pod's group."""
        domain = cycle.state.topology.chosen.get(group_key(cycle.pod))
        if domain is None:
            return np.zeros(len(nodes), dtype=np.uint64)
        numbers = cycle.state.neighbours.domains(domain.key).raw[nodes.slots]  # [M]
        return (numbers != domain.number).astype(np.uint64)

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The one bit."""
        domain = cycle.state.topology.chosen.get(group_key(cycle.pod))
        where = f"{domain.key}={domain.value}, the domain" if domain is not None else "the domain"
        return (Reason(f"node(s) outside {where} of the pod's group", resolvable=False),)

    def sort_key(self, unit: Unit) -> tuple[Any, ...]:
        """Highest priority first (of the group, if it has one), then oldest, then by name."""
        return (-unit.priority, unit.created, unit.key)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """No preemption: a group preempts as a whole, and other plugins preempt for single pods."""
        return PostFilterResult(unschedulable("left to the group as a whole"))

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """SKIP: the placement of the group decides for members, and other pods are not scored."""
        return SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """All nodes alike."""
        return np.zeros(len(nodes), dtype=np.int64)  # [M]

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Changes of the group, the tree or nodes, and deleted pods."""
        return Obstacle.TOPOLOGY.hints(OWN_GROUP) | Obstacle.GROUP.hints(OWN_GROUP)
