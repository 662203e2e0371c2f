"""SchedulingGates: a pod with gates is not looked at until they are gone (KEP-3521)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.framework.hints import Hint
from scheduler_core.framework.status import SUCCESS, Status, unresolvable
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import Happened


class SchedulingGates:
    """PreEnqueue: refuse while spec.schedulingGates is not empty."""

    name = "SchedulingGates"

    def pre_enqueue(self, state: ClusterState, pod: Pod) -> Status:
        """UNRESOLVABLE with the names of the gates."""
        if not pod.gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: {', '.join(pod.gates)}")

    def hints(self) -> Mapping[Happened, Hint | None]:
        """Only an update of the pod itself removes gates, and that enqueues it anyway."""
        return {}
