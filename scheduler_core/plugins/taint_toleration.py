"""TaintToleration: filters by NoSchedule and NoExecute taints, scores by PreferNoSchedule taints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.scoring import default_normalize
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.taints import untolerated
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import TAINT_TOLERATION
from scheduler_core.model.pods.affinity import PREFER_NO_SCHEDULE, Taint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.events import EventKind

_LAST_BIT = 63


def _preferences(pod: Pod, taints: tuple[Taint, ...]) -> int:
    """The number of PreferNoSchedule taints that the pod does not tolerate."""
    tolerations = [t for t in pod.tolerations if t.effect in ("", PREFER_NO_SCHEDULE)]
    soft = (taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
    return sum(not any(t.tolerates(taint) for t in tolerations) for taint in soft)


class TaintToleration:
    """Nodes share few distinct taint sets, so a verdict is made per set and looked up per node."""

    name = TAINT_TOLERATION
    scope = Scope.STATIC

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]: one bit per distinct taint that the pod does not tolerate."""
        seen: dict[Taint, int] = cycle.slots.setdefault(self.name, {})
        sets = nodes.table.taint_sets.values
        verdicts = np.zeros(len(sets), dtype=np.uint64)  # [taint sets]
        for i, taints in enumerate(sets):
            taint = untolerated(cycle.pod.tolerations, taints)
            if taint is not None:
                bit = min(seen.setdefault(taint, len(seen)), _LAST_BIT)
                verdicts[i] = np.uint64(1 << bit)
        return verdicts[nodes.taint_set]

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """One reason per taint, in the order of the bits."""
        seen: dict[Taint, int] = cycle.slots.get(self.name, {})
        return [
            Reason(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", resolvable=False)
            for taint in seen
        ][: _LAST_BIT + 1]

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """Skip while no node has a PreferNoSchedule taint."""
        sets = cycle.state.nodes.taint_sets.values
        return SUCCESS if any(t.effect == PREFER_NO_SCHEDULE for s in sets for t in s) else SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M]: number of untolerated PreferNoSchedule taints."""
        sets = nodes.table.taint_sets.values
        counts = np.array([_preferences(cycle.pod, taints) for taints in sets], dtype=np.int64)  # [sets]
        return counts[nodes.taint_set]

    def normalize(self, cycle: Cycle, raw: Int64, feasible: NDArray[np.bool_]) -> Int64:
        """int64 [N]: fewest taints is best."""
        return default_normalize(raw, feasible, reverse=True)

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A node came, or lost taints, and the pod tolerates what is left."""
        return Obstacle.KIND.hints(
            lambda _, pod, event: bool(event.node and untolerated(pod.tolerations, event.node.taints) is None)
        )
