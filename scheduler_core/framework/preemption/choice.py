"""The cheapest of what was proved, and the order in which victims are given back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.framework.preemption.across import Books
from scheduler_core.framework.preemption.bounds import FLAWS, Cost
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.framework.preemption.gangs import units_of
from scheduler_core.framework.preemption.loans import Loans, stages_of
from scheduler_core.framework.preemption.prices import Prices
from scheduler_core.framework.preemption.proof import Found
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState

Bool = NDArray[np.bool_]


class Choice:
    """Victims that were proved, compared by what they cost, whole gangs counted in.

    `contended` gives bool [R] for a node: what its victims go for.
    """

    def __init__(
        self, state: ClusterState, loans: Loans | None, budgets: Budgets, contended: Callable[[int], Bool]
    ) -> None:
        self._state = state
        self._loans = loans
        self._budgets = budgets
        self._contended = contended
        self._cost: Cost = ()
        self.best: Found | None = None

    def offer(self, found: Found | None, expected: Cost = ()) -> bool:
        """Take an offer into account; True if no other can be cheaper.

        `expected` is what arithmetic said of this node before those that come after it.
        """
        if found is None or not self.is_lawful(found):
            return False
        cost = self.cost(found)
        if self.best is None or cost < self._cost:
            self._cost, self.best = cost, found
        return self._cost <= expected if expected else not found.torn

    @property
    def flawed(self) -> bool:
        """Whether the best so far hurts a min, a quota or a budget that another node might spare."""
        return any(self._cost[:FLAWS])

    def cost(self, found: Found) -> Cost:
        """The keys of `Cost`, without the node's name."""
        prices, size = self._prices(found.victims), len(found.victims)
        keys = prices.keys(np.ones((1, size), dtype=np.int64), self._contended(found.slot))
        return tuple(key[0].item() for key in keys)

    def is_lawful(self, found: Found) -> bool:
        """Whether the quota of each victim is over its min before the victim goes, a gang taken as one."""
        places = {pod.uid: place for place, pod in enumerate(self._in_order(found.victims))}
        units = [[places[pod.uid] for pod in unit] for unit in units_of(found.victims, found.torn)]
        picks = np.ones((1, len(places)), dtype=np.int64)
        return bool(self._prices(found.victims).lawful(picks, units)[0])

    def _in_order(self, pods: Sequence[Pod]) -> list[Pod]:
        rows = self._sorted(self._rows(pods))
        return list(self._state.table.of(rows))

    def _rows(self, pods: Sequence[Pod]) -> Rows:
        return np.array([self._state.placed[pod.uid].row for pod in pods], dtype=np.int64)

    def _sorted(self, rows: Rows) -> Rows:
        """Rows from the least important to the most important."""
        table = self._state.table
        out: Rows = rows[np.lexsort((rows, -table.start[rows], table.priority[rows]))]
        return out

    def _prices(self, victims: Sequence[Pod]) -> Prices:
        rows = self._sorted(self._rows(victims))
        return Prices(self._state.table, self._loans, self._budgets, rows)

    # Orders of giving back

    def give_back(self, rows: Rows) -> Rows:
        """Protected ones first, then from the most important down (rule 11); quotas above max last."""
        ordered = self._sorted(rows)
        late = self._budgets.beyond(ordered)
        found = np.concatenate([ordered[late][::-1], ordered[~late][::-1]])
        if self._loans is None or not self._loans.first.any():
            return found
        first = self._loans.first[self._loans.owners(found)]
        return np.concatenate([found[~first], found[first]])

    def give_back_all(self, rows: Rows, contended: Bool) -> Rows:
        """The same for all that might go: those first that quotas do not lend, then those beyond loans."""
        ordered = self._sorted(rows)
        late = self._budgets.beyond(ordered)
        rounds = [ordered[~late], ordered[late]]
        if self._loans is None:
            return np.concatenate(rounds)[::-1]
        books = Books(self._state.table, self._loans, self._budgets, rows[:0], contended)
        anything = np.ones(len(contended), dtype=np.int64)  # [R]
        sequence: dict[int, None] = {}
        for stage in stages_of(self._loans):
            for part in rounds:
                for row in part.tolist():
                    if row not in sequence and len(books.may_go(np.array([row]), anything, stage)):
                        books.take(row)
                        sequence[row] = None
        unlawful = [row for part in rounds for row in part.tolist() if row not in sequence]
        return np.array([*sequence, *unlawful], dtype=np.int64)[::-1]

    def overdrawn_first(self, order: Rows, found: Found) -> Rows:
        """The order with the pods of those quotas first that would lose what they are guaranteed."""
        if self._loans is None:
            return order
        owners = self._loans.owners(self._sorted(self._rows(found.victims)))
        places = {pod.uid: place for place, pod in enumerate(self._in_order(found.victims))}
        units = [[places[pod.uid] for pod in unit] for unit in units_of(found.victims, found.torn)]
        prices = self._prices(found.victims)
        overdrawn = [
            quota
            for quota in np.unique(owners).tolist()
            if not prices.lawful((owners == quota).astype(np.int64)[None, :], units)[0]
        ]
        first = np.isin(self._loans.owners(order), overdrawn)
        return np.concatenate([order[first], order[~first]])
