"""Orders nodes by the exact cost of their victims, without computing the victims of every node.

The order of removal decides the victims of a node. All sets of few candidates are compared where that order
passed over a candidate of a loan and took later ones, and where it finds flaws on all nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.cost_bounds import FLAWS, Bounds, CandidateMatrix, Cost
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.lanes import CandidateLanes
from scheduler_core.framework.preemption.loans import contended_by, loans_of
from scheduler_core.framework.preemption.victim_costs import MOST_CANDIDATES, VictimCosts, best_subset

# Most lanes that are decided one by one if the stages over all lanes found no victims.
MOST_SINGLE_LANES: Final = 512
# Most lanes for which all subsets of their candidates are compared: for flaws, and for who was passed over.
MOST_EXACT_LANES: Final = 32


class Offer(NamedTuple):
    """A node (slot) with the cost of its victims and their rows, most important first."""

    cost: Cost
    slot: int
    rows: Rows

    @property
    def flawed(self) -> bool:
        """Whether the victims reach into a min or violate a budget, which other victims might avoid."""
        return any(self.cost[:FLAWS])


class CheapestFirst:
    """Offers of the nodes of a matrix, cheapest first. `deficit` int64 [R, L] is what each node lacks."""

    def __init__(
        self, matrix: CandidateMatrix, demand: Demand, deficit: Int64, budgets: Budgets, name_ranks: Rows
    ) -> None:
        self._matrix = matrix
        self._demand = demand
        self._loans = loans_of(matrix.table, demand)
        self._deficit = deficit
        self._budgets = budgets
        self._names = name_ranks
        self._bounds = Bounds(matrix, self._loans, deficit, name_ranks)
        self._compared = 0

    def __iter__(self) -> Iterator[Offer]:
        """Offers by order of removal until one is flawed; from then on the first nodes are solved exactly."""
        done: set[int] = set()
        offers = self._by_removal()
        left: Iterator[Offer] = iter(())
        for offer in offers:
            if offer.flawed:
                left = chain([offer], offers)
                break
            done.add(offer.slot)
            yield offer
        decided, exact = self._exactly(done)
        others = (offer for offer in left if offer.slot not in decided)
        yield from heapq.merge(exact, others, key=lambda offer: offer.cost)

    def _by_removal(self) -> Iterator[Offer]:
        """Quotas that borrow nothing lacking are considered only if the borrowers suffice on no node."""
        found = False
        for offer in self._in_order():
            found = True
            yield offer
        if not found and self._loans is not None:
            yield from self._in_order(rest=True)

    def _in_order(self, *, rest: bool = False) -> Iterator[Offer]:
        """The victims of a block of nodes are computed only if its bound is below the cheapest offer."""
        left = MOST_SINGLE_LANES if rest else len(self._bounds.lanes)
        offers: list[tuple[Cost, CandidateLanes, int]] = []
        for block, others in self._bounds.blocks():
            offers += self._offers(self._bounds.lanes[block[:left]], rest=rest)
            left -= len(block)
            heapq.heapify(offers)
            while offers and (others is None or left <= 0 or offers[0][0] <= others):
                cost, lanes, lane = heapq.heappop(offers)
                yield Offer(cost, int(lanes.slots[lane]), lanes.victims(lane))
            if left <= 0:
                return

    def _offers(self, numbers: Rows, *, rest: bool) -> list[tuple[Cost, CandidateLanes, int]]:
        lanes = CandidateLanes(self._matrix, self._loans, numbers, self._deficit, self._budgets)
        lanes.remove()
        if rest:
            lanes.remove_rest()
        lanes.reprieve()
        costs = lanes.costs(self._names)
        for lane in lanes.passed_over.nonzero()[0].tolist():
            other = self._cheaper(int(numbers[lane]), lanes.victims(lane), costs[lane])
            if other is not None:
                costs[lane] = other.cost
                lanes.replace(lane, other.rows)
        return [(costs[lane], lanes, lane) for lane in lanes.satisfied.nonzero()[0].tolist()]

    def _cheaper(self, number: int, victims: Rows, cost: Cost) -> Offer | None:
        """The cheapest set of a lane where the order of removal passed over a candidate, or None.

        None if no set costs less than `cost`, that of `victims`, or if too many sets would be compared. Pods
        of quotas that go first are exchanged for others of such quotas only.
        """
        loans, table = self._loans, self._matrix.table
        if loans is None or self._compared >= MOST_EXACT_LANES:
            return None
        rows, deficit = self._useful(number), self._deficit[:, number]
        if loans.first.any():
            first = loans.first[loans.owners(rows)]
            if first.any() and not loans.first[loans.owners(victims)].all():
                return None
            rows = rows[first] if first.any() else rows
        if not any(cost[:FLAWS]):
            # No cheaper set has a pod that matters more than all victims, or that reaches into a min alone.
            rows = rows[table.priority[rows] <= cost[FLAWS]]
            rows = rows[loans.fit_alone(rows, contended_by(self._demand, deficit))]
        if len(rows) > MOST_CANDIDATES:
            return None
        self._compared += 1
        best = self._best(int(self._matrix.slots[number]), rows, deficit)
        return best if best is not None and best.cost < cost else None

    # Few nodes exactly

    def _exactly(self, done: set[int]) -> tuple[set[int], list[Offer]]:
        """(slots solved, their offers in order): the first nodes by their bound, over all subsets."""
        positions = chain.from_iterable(block.tolist() for block, _ in self._bounds.blocks())
        numbers = (int(self._bounds.lanes[position]) for position in positions)
        todo = (number for number in numbers if int(self._matrix.slots[number]) not in done)
        decided: set[int] = set()
        found: list[Offer] = []
        for number in islice(todo, MOST_EXACT_LANES):
            slot = int(self._matrix.slots[number])
            rows = self._useful(number)
            if len(rows) > MOST_CANDIDATES:
                continue
            decided.add(slot)
            offer = self._best(slot, rows, self._deficit[:, number])
            if offer is not None:
                found.append(offer)
        return decided, sorted(found, key=lambda offer: offer.cost)

    def _useful(self, number: int) -> Rows:
        """Rows of a lane's candidates that free a lacking resource, least important first."""
        rows = self._matrix.rows[self._matrix.chosen[:, number], number].astype(np.int64)
        lacking = np.flatnonzero(self._deficit[:, number] > 0)
        out: Rows = rows[(self._matrix.table.requests[lacking][:, rows] > 0).any(axis=0)]
        return out

    def _best(self, slot: int, rows: Rows, deficit: Int64) -> Offer | None:
        costs = VictimCosts(self._matrix.table, self._loans, self._budgets, rows)
        frees = self._matrix.table.requests[: len(deficit)].T[rows]  # [J, R]
        best = best_subset(costs, frees, deficit, contended_by(self._demand, deficit))
        if best is None:
            return None
        cost = (*best.keys, float(self._names[slot]))
        return Offer(cost, slot, rows[best.places][::-1])
