"""PodDisruptionBudgets in preemption: finds the evictions that would violate a budget.

As in kube-scheduler this is best effort: such victims are chosen last and given back first, see
docs/quota.md#preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduler_core.arrays.intern import ABSENT
from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.placed.pods import PodTable

_NONE: Rows = np.zeros(0, dtype=np.int64)


class Protection(NamedTuple):
    """Cells of [J, L] whose pods a budget protects: one entry per cell and budget, int64 [E] each.

    `places` are in order of importance: the highest place of a lane is its most important pod.
    """

    budgets: Rows = _NONE
    places: Rows = _NONE
    lanes: Rows = _NONE

    def beyond(self, among: Bool, allowed: Int64) -> Bool:
        """bool [J, L]: cells of `among` whose eviction exceeds a budget; important pods use it up first."""
        out: Bool = np.zeros_like(among)
        here = among[self.places, self.lanes]
        budgets, places, lanes = self.budgets[here], self.places[here], self.lanes[here]
        order = np.lexsort((-places, lanes, budgets))
        budgets, places, lanes = budgets[order], places[order], lanes[order]
        starts = np.r_[True, (np.diff(budgets) != 0) | (np.diff(lanes) != 0)]
        first = np.flatnonzero(starts)
        spent = np.arange(1, len(order) + 1) - np.repeat(first, np.diff(np.r_[first, len(order)]))
        over = spent > allowed[budgets]
        out[places[over], lanes[over]] = True
        return out


def counted(state: ClusterState) -> list[PodDisruptionBudget]:
    """The budgets that evictions by Muster count against: all except those that it made for gangs.

    minMembers decides which members of a gang are evicted, and when the gang is evicted as a whole.
    """
    found: Iterable[PodDisruptionBudget] = state.objects.get("PodDisruptionBudget", {}).values()
    return [budget for budget in found if not budget.gang]


class Budgets:
    """The disruption budgets of one attempt. Selectors are evaluated once per namespace and set of labels."""

    def __init__(self, table: PodTable, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._table = table
        self._all = tuple(budgets)
        self.allowed: Int64 = np.array([item.allowed for item in self._all], dtype=np.int64)  # [B]
        self._here: dict[int, list[int]] = {}
        for number, budget in enumerate(self._all):
            namespace = table.namespaces.find(budget.namespace)
            if namespace != ABSENT:
                self._here.setdefault(namespace, []).append(number)
        self._matching: dict[tuple[int, frozenset[tuple[str, str]]], tuple[int, ...]] = {}

    def __bool__(self) -> bool:
        """Whether any pod of the cluster may be protected."""
        return bool(self._here)

    def of(self, pod: Pod) -> tuple[int, ...]:
        """Numbers of the budgets that the eviction of a pod counts against; none for pods without labels."""
        namespace = self._table.namespaces.find(pod.namespace)
        numbers = self._here.get(namespace)
        if numbers is None or not pod.labels:
            return ()
        key = namespace, frozenset(pod.labels.items())
        found = self._matching.get(key)
        if found is None:
            found = tuple(n for n in numbers if self._all[n].selector.matches(pod.labels))
            self._matching[key] = found
        return tuple(n for n in found if pod.name not in self._all[n].disrupted)

    def protection(self, rows: Int32 | Rows, chosen: Bool) -> Protection:
        """The protected ones of the `chosen` cells (bool [J, L]) of `rows` [J, L], with their budgets."""
        if not self._here:
            return Protection()
        covered: Bool = np.zeros(len(self._table.namespaces) + 1, dtype=np.bool_)
        covered[list(self._here)] = True
        places, lanes = np.nonzero(chosen & covered[self._table.namespace[rows]])
        pods, cells = self._table.pods, rows[places, lanes].tolist()
        found = [self.of(pod) if (pod := pods[row]) is not None else () for row in cells]
        times = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        budgets = np.fromiter((n for numbers in found for n in numbers), np.int64, count=int(times.sum()))
        return Protection(budgets, np.repeat(places, times), np.repeat(lanes, times))

    def beyond(self, rows: Rows) -> Bool:
        """bool [J]: pods (in ascending importance) whose eviction exceeds a budget if all are evicted."""
        every: Bool = np.ones((len(rows), 1), dtype=np.bool_)
        return self.protection(rows[:, None], every).beyond(every, self.allowed)[:, 0]


def violating(pods: Sequence[Pod], budgets: Iterable[PodDisruptionBudget]) -> list[bool]:
    """For each pod, most important first: whether its eviction exceeds a budget after those before it."""
    known = tuple(budgets)
    left = [budget.allowed for budget in known]
    found = []
    for pod in pods:
        hurt = False
        for number, budget in enumerate(known):
            if budget.namespace == pod.namespace and _counts(budget, pod):
                left[number] -= 1
                hurt |= left[number] < 0
        found.append(hurt)
    return found


def _counts(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether a pod of its namespace counts against a budget; pods without labels never do."""
    counted = pod.name not in budget.disrupted and bool(pod.labels)
    return counted and budget.selector.matches(pod.labels)
