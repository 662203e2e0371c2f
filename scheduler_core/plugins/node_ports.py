"""NodePorts: filters out nodes on which a host port of the pod is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler_core.arrays.index import PODS_ROW
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import NODE_PORTS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind

REASONS: Final = (Reason("node(s) didn't have free ports for the requested pod ports"),)


class NodePorts:
    """Filter by host ports; 0.0.0.0 conflicts with every address of the same port and protocol.

    The answer changes only with the pods of a node, as its requests do, so it is of USAGE scope.
    """

    name = NODE_PORTS
    scope = Scope.USAGE

    def pre_filter(self, cycle: Cycle) -> Status:
        """SKIP without host ports."""
        return SUCCESS if cycle.pod.host_ports else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]. Pods that the view adds hypothetically are equal to this one, and take its ports."""
        table = nodes.table
        taken = cycle.state.ports.taken(cycle.pod.host_ports, table.size)[nodes.slots]
        more = nodes.requested[PODS_ROW] > table.requested[PODS_ROW, nodes.slots]
        bits: Bits = (taken | more).astype(np.uint64)
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The reason of the only bit."""
        return REASONS

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A node came, or a pod with one of the ports went."""
        return Obstacle.ROOM.hints(_frees_port)


def _frees_port(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    if event.pod is None:
        return bool(event.what & EventKind.NODE_ADD)
    freed = {(port.protocol, port.port) for port in event.pod.host_ports}
    return any((port.protocol, port.port) in freed for port in pod.host_ports)
