"""Coscheduling: pods of a group start together or not at all.

The engine schedules a gang as one unit (engine.gang.cycle), with its quorum, trial and preemption. This
plugin checks a single member, carries the arguments, and registers the events that can help a gang.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.gang_members import PlacedTogether
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.queueing.group_hints import group_hints
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.status import (
    SUCCESS,
    Diagnosis,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.names import COSCHEDULING
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.gangs.kept_nodes import DEFAULT_LIMIT_SECONDS


class Coscheduling(PlacedTogether):
    """Checks the group of a pod. With `require_pod_group` a pod without a group is refused.

    `reservation_seconds`: how long a gang waits before nodes are kept for it; `strict` keeps them at once.
    `reservation_limit`: seconds after which they are no longer kept. `disruption_budgets`: every running gang
    of the profile is protected by a PodDisruptionBudget (controllers.gang_budgets). `composite_pod_groups`:
    CompositePodGroups are read, for all profiles (docs/gangs.md#composite-groups).
    """

    name = COSCHEDULING

    def __init__(
        self,
        require_pod_group: bool = False,
        reservation_seconds: float = 300.0,
        strict: bool = False,
        reservation_limit: float = DEFAULT_LIMIT_SECONDS,
        disruption_budgets: bool = False,
        composite_pod_groups: bool = False,
    ) -> None:
        self.require_pod_group = require_pod_group
        self.reservation_limit = reservation_limit
        self.disruption_budgets = disruption_budgets
        self.composite_pod_groups = composite_pod_groups
        self.reservation_seconds = 0.0 if strict else reservation_seconds

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Members of groups; every pod where pods without a group are refused."""
        return self.require_pod_group or group_of(pod) is not None

    def pre_filter(self, cycle: Cycle) -> Status:
        """UNRESOLVABLE for a pod whose group does not exist, and for a pod without a required group."""
        ref = group_of(cycle.pod)
        if ref is None:
            if self.require_pod_group:
                return unresolvable("the pod names no PodGroup; resubmit it with one")
            return SUCCESS
        if ref.dialect != "ConfigMap" and ref.key not in cycle.state.gangs.gangs:
            return unresolvable(f"{ref} does not exist")
        return SUCCESS

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """No preemption for a single member: the gang preempts as a whole."""
        return PostFilterResult(unschedulable("left to the gang as a whole"))

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """The group was added or changed, or a sibling was placed, removed or is leaving."""
        return group_hints()[self.name]
