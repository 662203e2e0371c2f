"""Which evictions would violate a PodDisruptionBudget (best effort, reference rule 11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler_core.framework.preemption.lanes import Lanes
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pod import Pod


def violating(pods: Sequence[Pod], budgets: Iterable[PodDisruptionBudget]) -> list[bool]:
    """For pods from the most important down: whether its eviction exceeds a budget, given those before it."""
    left = {budget.key: budget.allowed for budget in budgets}
    found = []
    for pod in pods:
        hurt = False
        for budget in budgets:
            if budget.namespace != pod.namespace or pod.name in budget.disrupted:
                continue
            if pod.labels and budget.selector.matches(pod.labels):
                left[budget.key] -= 1
                hurt |= left[budget.key] < 0
        found.append(hurt)
    return found


def mark_violations(lanes: Lanes, budgets: Sequence[PodDisruptionBudget]) -> None:
    """Fill `lanes.violating`. Only lanes with a removed pod in a budget's namespace are looked at."""
    namespaces = {budget.namespace for budget in budgets}
    if not namespaces:
        return
    for lane in range(len(lanes.slots)):
        # Removal order is from the least important, budgets are spent from the most important.
        places = lanes.removed[:, lane].nonzero()[0][::-1]
        pods = list(lanes.table.of(lanes.rows[places, lane]))
        if any(pod.namespace in namespaces for pod in pods):
            lanes.violating[places, lane] = violating(pods, budgets)
