"""SchedulingGates: keeps a pod out of the queue while it has scheduling gates (KEP-3521)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.status import SUCCESS, Status, unresolvable
from scheduler_core.model.names import SCHEDULING_GATES
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind


class SchedulingGates:
    """PreEnqueue: refuse while spec.schedulingGates is not empty."""

    name = SCHEDULING_GATES

    def pre_enqueue(self, state: ClusterState, pod: Pod) -> Status:
        """UNRESOLVABLE with the names of the gates."""
        if not pod.gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: {', '.join(pod.gates)}")

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Only an update of the pod itself removes gates, and that enqueues it anyway."""
        return {}
