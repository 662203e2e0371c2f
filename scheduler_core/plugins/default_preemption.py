"""DefaultPreemption: makes room by evicting pods of lower priority."""

from __future__ import annotations

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.demand import ordinary_demand
from scheduler_core.framework.preemption.eligibility import must_wait, not_eligible, refused
from scheduler_core.framework.preemption.search import VictimSearch
from scheduler_core.framework.status import Code, Diagnosis
from scheduler_core.model.names import CAPACITY_SCHEDULING, DEFAULT_PREEMPTION


class DefaultPreemption:
    """Preempts by priority alone.

    In a profile with elastic quotas, pods under a quota neither preempt here nor are victims here: their
    quotas decide (docs/quota.md#preemption).
    """

    name = DEFAULT_PREEMPTION

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """SUCCESS with node and victims, or why no eviction helps."""
        under_quotas = CAPACITY_SCHEDULING in cycle.enabled
        if under_quotas and cycle.state.ledger.quota_of(cycle.pod.namespace) is not None:
            return PostFilterResult(refused("left to the quota").status)
        if diagnosis.status is not None and diagnosis.status.code is not Code.UNSCHEDULABLE:
            return refused("Preemption is not helpful for scheduling")
        reason = not_eligible(cycle.state, cycle.pod)
        if reason or cycle.evaluation is None:
            return must_wait(reason)
        demand = ordinary_demand(cycle.state, cycle.pod, spare_quotas=under_quotas)
        # Victims on other nodes are a right that comes with quotas; kube-scheduler has none on other nodes.
        across = under_quotas and cycle.evaluation.across_nodes
        return VictimSearch(cycle, cycle.evaluation, demand).run(across_nodes=across)
