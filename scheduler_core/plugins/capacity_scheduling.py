"""CapacityScheduling: elastic quotas decide what may be scheduled, and who must give back what it borrows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Hint, PostFilterResult
from scheduler_core.framework.obstacles import Obstacle
from scheduler_core.framework.preemption.demand import quota_demands
from scheduler_core.framework.preemption.eligibility import must_wait, not_eligible, refused
from scheduler_core.framework.preemption.nominated import nominated_requests
from scheduler_core.framework.preemption.search import Search
from scheduler_core.framework.preemption.turns import in_turn
from scheduler_core.framework.status import SUCCESS, Code, Diagnosis, Status, unschedulable
from scheduler_core.model.pod import NEVER, Pod
from scheduler_core.quota.policy import admit, within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

_NONE: Final[dict[str, int]] = {}


class CapacityScheduling:
    """PreFilter by max and by the sum of min; PostFilter reclaims what other quotas borrow.

    Use is charged and refunded by the state itself at Reserve. `cross_node` false gives the seed's literal
    rule: victims on one node only.
    """

    name = "CapacityScheduling"

    def __init__(self, cross_node: bool = True) -> None:
        self.cross_node = cross_node

    def pre_filter(self, cycle: Cycle) -> Status:
        """UNSCHEDULABLE with the typed refusal as detail: evictions may help."""
        state, pod = cycle.state, cycle.pod
        own, total = _NONE, _NONE
        if len(state.nominations):
            own, total = nominated_requests(state, pod, leaving_count=not cycle.after_leaving)
        refusal = admit(
            state.ledger,
            pod.namespace,
            pod.requests,
            nominated=own,
            nominated_total=total,
            after_leaving=cycle.after_leaving,
        )
        return SUCCESS if refusal is None else unschedulable(str(refusal), refusal)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """SUCCESS with node and victims, or why no eviction helps; for pods under a quota only."""
        state, pod = cycle.state, cycle.pod
        quota = state.ledger.quota_of(pod.namespace)
        if quota is None:
            return PostFilterResult(refused("no quota").status)
        if diagnosis.status is not None and diagnosis.status.code is not Code.UNSCHEDULABLE:
            return refused("Preemption is not helpful for scheduling")
        reason = not_eligible(state, pod)
        if reason or cycle.evaluation is None:
            return must_wait(reason)
        result = refused("No preemption victims found for incoming pod")
        demands = quota_demands(state, pod, quota)
        for demand in (turn for found in demands for turn in in_turn(state.table, found)):
            result = Search(cycle, cycle.evaluation, demand).run(across_nodes=self.cross_node)
            if result.status.ok:
                break
        return result

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """The state charges the ledger when it assumes the pod; there is nothing to add."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """The state refunds when it forgets the pod."""

    def hints(self) -> Mapping[Happened, Hint | None]:
        """Quota came free or changed, or can be reclaimed from one more."""
        return Obstacle.QUOTA.hints(_may_admit)


def _may_admit(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    if event.what & Happened.LOAN:
        return _may_reclaim(state, pod, event)
    if event.pod is None:
        return True
    if event.what & Happened.POD_DELETE:
        # It counted for its own quota, and through the aggregate rule for every other.
        return state.ledger.quota_of(event.pod.namespace) is not None
    # One on its way out still counts, but not against the min of its own quota.
    return event.pod.namespace == pod.namespace


def _may_reclaim(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Another quota began to borrow, and the pod would stay within the min of its own."""
    quota = state.ledger.quota_of(pod.namespace)
    if quota is None or quota.namespace == event.namespace or pod.preemption_policy == NEVER:
        return False
    if not within_min(state.ledger, quota, pod.requests):
        return False
    own, _ = nominated_requests(state, pod)
    return within_min(state.ledger, quota, pod.requests, own)
