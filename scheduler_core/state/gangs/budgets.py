"""PodDisruptionBudgets by origin: those that Muster made for gangs, and all others."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.model.names import PROTECTED_GROUP_LABEL
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pods.pod import Pod


class BudgetTable:
    """`own` are Muster's budgets by the uid of the group that each protects.

    `dirty` are keys of groups whose pods or object changed; `changed` are namespaces in which a budget
    changed or a group was added or removed. `suspects` are pods (by uid) with the label of a protected group,
    which may not be members of it.
    """

    def __init__(self) -> None:
        self.own: dict[str, PodDisruptionBudget] = {}
        self.dirty: set[str] = set()
        self.changed: set[str] = set()
        self.suspects: dict[str, Pod] = {}
        self._all: dict[str, PodDisruptionBudget] = {}
        self._others: dict[str, dict[str, PodDisruptionBudget]] = {}

    def others(self, namespace: str) -> Mapping[str, PodDisruptionBudget]:
        """The budgets of a namespace that Muster did not make, by name. Read only."""
        return self._others.get(namespace, {})

    def put(self, budget: PodDisruptionBudget) -> None:
        """A budget was added or changed. A change of disruptionsAllowed alone concerns no group."""
        old = self._drop(budget)
        self._all[budget.key] = budget
        if budget.gang:
            self.own[budget.gang] = budget
        else:
            self._others.setdefault(budget.namespace, {})[budget.name] = budget
        if old is None or _asks(old) != _asks(budget):
            self.changed.add(budget.namespace)

    def remove(self, budget: PodDisruptionBudget) -> None:
        """A budget is gone."""
        self._drop(budget)
        self.changed.add(budget.namespace)

    def put_pod(self, pod: Pod) -> None:
        """A pod that has the label, or had it before, was added or changed."""
        if PROTECTED_GROUP_LABEL in pod.labels:
            self.suspects[pod.uid] = pod
        else:
            self.suspects.pop(pod.uid, None)

    def _drop(self, budget: PodDisruptionBudget) -> PodDisruptionBudget | None:
        """Remove the budget of this name, which may have been of the other origin."""
        old = self._all.pop(budget.key, None)
        if old is not None and old.gang:
            self.own.pop(old.gang, None)
        elif old is not None:
            del self._others[old.namespace][old.name]
        return old


def _asks(budget: PodDisruptionBudget) -> tuple[object, ...]:
    return budget.uid, budget.selector, budget.min_available, budget.gang
