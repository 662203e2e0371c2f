"""NodeName: filters out all nodes but the one in spec.nodeName."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.status import Bits, Reason
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import NODE_NAME
from scheduler_core.state.events import EventKind

REASONS: Final = (Reason("node(s) didn't match the requested node name", resolvable=False),)


class NodeName:
    """Filter by spec.nodeName. Such a pod is bound by its creator; this matters to explanations only."""

    name = NODE_NAME
    scope = Scope.STATIC

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        if not cycle.pod.node_name:
            return np.zeros(len(nodes), dtype=np.uint64)
        slot = nodes.table.slot(cycle.pod.node_name)
        return (nodes.indices != (-1 if slot is None else slot)).astype(np.uint64)

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The one bit."""
        return REASONS

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """The named node may appear."""
        return {
            EventKind.NODE_ADD: lambda _, pod, event: bool(event.node and event.node.name == pod.node_name)
        }
