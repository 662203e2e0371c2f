"""Selection of a candidate: compares dry-run candidates by cost, and computes the order of reprieve.

Corresponds to `SelectCandidate` of kube-scheduler; criteria: docs/quota.md#preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scheduler_core.arrays.reprieve import reprieve_order
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.cost_bounds import FLAWS, Cost
from scheduler_core.framework.preemption.cross_node import RemainingLoans
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.framework.preemption.dry_run import Candidate, eviction_units
from scheduler_core.framework.preemption.fair_demand import is_fair_set
from scheduler_core.framework.preemption.loans import FIRST, UNLAWFUL, WITHIN, Loans, stages_of
from scheduler_core.framework.preemption.victim_costs import VictimCosts
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState

Admits = Callable[[Sequence[Pod]], bool]


def admits_all(victims: Sequence[Pod]) -> bool:
    """Admits every set of victims."""
    return True


class CandidateSelection:
    """The cheapest of the candidates offered so far (`best`), with whole gangs counted in.

    `contended` gives, for a slot, the resources that its victims are evicted for, bool [R]. `admits` is asked
    of each set as a whole. `refused` takes the candidates that may not go as a whole.
    """

    def __init__(
        self,
        state: ClusterState,
        loans: Loans | None,
        budgets: Budgets,
        contended: Callable[[int], Bool],
        admits: Admits = admits_all,
        refused: list[Candidate] | None = None,
    ) -> None:
        self._state = state
        self._loans = loans
        self._budgets = budgets
        self._contended = contended
        self._admits = admits
        self._refused = refused
        self._cost: Cost = ()
        self.best: Candidate | None = None

    def offer(self, found: Candidate | None, expected: Cost = ()) -> bool:
        """Take a candidate into account; returns True if no later one can be cheaper.

        `expected` is the computed cost of this node. Nodes are offered in the order of their computed costs.
        """
        if found is None:
            return False
        if not self.is_lawful(found):
            if self._refused is not None:
                self._refused.append(found)
            return False
        cost = self.cost(found)
        if self.best is None or cost < self._cost:
            self._cost, self.best = cost, found
        return self._cost <= expected if expected else not found.disrupted

    def is_cheaper_than(self, bound: Cost) -> bool:
        """Whether there is a best candidate that costs less than `bound`, the first keys of a cost."""
        return self.best is not None and self._cost[: len(bound)] < bound

    @property
    def flawed(self) -> bool:
        """True if the best candidate reaches into a min or violates a budget; another node might not."""
        return any(self._cost[:FLAWS])

    def cost(self, found: Candidate) -> Cost:
        """The keys of `Cost`, without the node's name."""
        costs, size = self._costs(found.victims), len(found.victims)
        keys = costs.keys(np.ones((1, size), dtype=np.int64), self._contended(found.slot))
        return tuple(key[0].item() for key in keys)

    def is_lawful(self, found: Candidate) -> bool:
        """True if the quota of each victim is over its min before the victim is evicted, gangs as one.

        In a fair move: if the victims are a fair set.
        """
        return self._leaves_guarantees(found) and self._admits(found.victims)

    def _leaves_guarantees(self, found: Candidate) -> bool:
        if self._loans is not None and self._loans.fair is not None:
            return is_fair_set(self._state, self._loans.fair, found.victims)
        picks = np.ones((1, len(found.victims)), dtype=np.int64)
        return bool(self._costs(found.victims).lawful(picks, self._units(found))[0])

    def _units(self, found: Candidate) -> list[list[int]]:
        """The victims that are evicted together, as places in the order of `_costs`."""
        rows = self._state.table.by_importance(self._rows(found.victims))
        places = {pod.uid: place for place, pod in enumerate(self._state.table.of(rows))}
        units = eviction_units(found.victims, found.disrupted)
        return [[places[pod.uid] for pod in unit] for unit in units]

    def _rows(self, pods: Sequence[Pod]) -> Rows:
        return np.array([self._state.placed[pod.uid].row for pod in pods], dtype=np.int64)

    def _costs(self, victims: Sequence[Pod]) -> VictimCosts:
        rows = self._state.table.by_importance(self._rows(victims))
        return VictimCosts(self._state.table, self._loans, self._budgets, rows)

    # Orders of reprieve

    def reprieve_order(self, rows: Rows) -> Rows:
        """The order in which victims are given back; victims of quotas above their max come last."""
        ordered = self._state.table.by_importance(rows)
        stages: Int64 = np.full(len(rows), WITHIN, dtype=np.int64)  # [M]
        if self._loans is not None and self._loans.first.any():
            stages[self._loans.first[self._loans.owners(ordered)]] = FIRST
        return self._reprieved(ordered, self._budgets.beyond(ordered), stages)

    def reprieve_order_of_all(self, rows: Rows, contended: Bool) -> Rows:
        """The order for all pods that may be evicted for resources (bool [R]), most of which are not needed.

        Pods that no stage of the reclaim may evict come first, then those of the last stage.
        """
        ordered = self._state.table.by_importance(rows)
        protected = self._budgets.beyond(ordered)
        stages: Int64 = np.full(len(rows), UNLAWFUL, dtype=np.int64)  # [M]
        if self._loans is not None:
            left = RemainingLoans(self._state.table, self._loans, self._budgets, rows[:0], contended)
            anything = np.ones(len(contended), dtype=np.int64)  # [R]
            places = np.concatenate([np.flatnonzero(~protected), np.flatnonzero(protected)]).tolist()
            for stage in stages_of(self._loans):
                for place in places:
                    row = ordered[place : place + 1]
                    if stages[place] == UNLAWFUL and len(left.may_go(row, anything, stage)):
                        left.take(int(row[0]))
                        stages[place] = stage
        return self._reprieved(ordered, protected, stages)

    def _reprieved(self, ordered: Rows, protected: Bool, stages: Int64) -> Rows:
        """Rows that are ordered from the least important to the most important, in the order of reprieve."""
        return ordered[reprieve_order([np.arange(len(ordered))], protected, stages)]

    def unlawful_first(self, order: Rows, found: Candidate) -> Rows:
        """The order, with the pods of quotas first that the candidate would take below their min."""
        if self._loans is None:
            return order
        owners = self._loans.owners(self._state.table.by_importance(self._rows(found.victims)))
        units, costs = self._units(found), self._costs(found.victims)
        unlawful = [
            quota
            for quota in np.unique(owners).tolist()
            if not costs.lawful((owners == quota).astype(np.int64)[None, :], units)[0]
        ]
        first = np.isin(self._loans.owners(order), unlawful)
        return np.concatenate([order[first], order[~first]])
