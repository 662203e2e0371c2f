"""NodeUnschedulable: filters out cordoned nodes, except for pods that tolerate the taint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.status import Bits, Reason
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import NODE_UNSCHEDULABLE
from scheduler_core.model.node import UNSCHEDULABLE_TAINT
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.events import EventKind

REASONS: Final = (Reason("node(s) were unschedulable", resolvable=False),)


def _tolerates(pod: Pod) -> bool:
    return any(toleration.tolerates(UNSCHEDULABLE_TAINT) for toleration in pod.tolerations)


class NodeUnschedulable:
    """Filter by spec.unschedulable."""

    name = NODE_UNSCHEDULABLE
    scope = Scope.STATIC

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        if _tolerates(cycle.pod):
            return np.zeros(len(nodes), dtype=np.uint64)
        return nodes.unschedulable.astype(np.uint64)

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The one bit."""
        return REASONS

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A node that can be scheduled on came, or was uncordoned."""
        return Obstacle.KIND.hints(lambda _, __, event: bool(event.node and not event.node.unschedulable))
