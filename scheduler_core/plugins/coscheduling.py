"""Coscheduling: pods of a group start together or not at all.

The engine tries a gang as one unit (engine.gang_cycle): the quorum, the trial and the preemption of the whole
are not the business of single pods. This plugin says what holds for a single member, carries the arguments,
and names the events that can help a gang.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.hints import Hint
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.members import OWN_GROUP, PlacedTogether
from scheduler_core.framework.obstacles import Obstacle
from scheduler_core.framework.status import (
    SUCCESS,
    Diagnosis,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler_core.model.gang import group_of
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import Happened
from scheduler_core.state.keeping import DEFAULT_LIMIT_SECONDS


class Coscheduling(PlacedTogether):
    """`require_pod_group` gives the seed's literal rule: a pod without a group is refused.

    `reservation_seconds`: how long a gang waits before nodes are kept for it; `strict` keeps them at once.
    `reservation_limit`: seconds after which they are not kept any more. `disruption_budgets`: a
    PodDisruptionBudget protects every gang of the profile that runs (controllers.gang_budgets).
    """

    name = "Coscheduling"

    def __init__(
        self,
        require_pod_group: bool = False,
        reservation_seconds: float = 300.0,
        strict: bool = False,
        reservation_limit: float = DEFAULT_LIMIT_SECONDS,
        disruption_budgets: bool = False,
    ) -> None:
        self.require_pod_group = require_pod_group
        self.reservation_limit = reservation_limit
        self.disruption_budgets = disruption_budgets
        self.reservation_seconds = 0.0 if strict else reservation_seconds

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Members of groups; every pod where pods without a group are refused."""
        return self.require_pod_group or group_of(pod) is not None

    def pre_filter(self, cycle: Cycle) -> Status:
        """UNRESOLVABLE for a pod whose group is not there (reference, item 2), or that must have one."""
        ref = group_of(cycle.pod)
        if ref is None:
            if self.require_pod_group:
                return unresolvable("the pod names no PodGroup; resubmit it with one")
            return SUCCESS
        if ref.dialect != "ConfigMap" and ref.key not in cycle.state.gangs.gangs:
            return unresolvable(f"{ref} does not exist")
        return SUCCESS

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """A member alone helps nobody: the gang preempts as a whole, or not at all."""
        return PostFilterResult(unschedulable("left to the gang as a whole"))

    def hints(self) -> Mapping[Happened, Hint | None]:
        """The group came or changed, or a sibling took a node, lost it or ends."""
        return Obstacle.GROUP.hints(OWN_GROUP)
