"""Nodes in the order of what their victims cost, found without looking at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.bounds import Bounds, Cost, Field
from scheduler_core.framework.preemption.budgets import mark_violations
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.lanes import Lanes
from scheduler_core.model.pdb import PodDisruptionBudget

# Lanes that are looked at one by one, where the passes over all lanes at once found nothing.
_MOST_SINGLE_LANES: Final = 512


class Offer(NamedTuple):
    """The price of a node, its slot in the node table, and where its victims are."""

    cost: Cost
    slot: int
    lanes: Lanes
    lane: int

    @property
    def rows(self) -> Rows:
        """Rows of the victims, most important first."""
        return self.lanes.victims(self.lane)


class CheapestFirst:
    """Offers of a field's nodes, cheapest first. `deficit` int64 [R, L] is what must come free on each."""

    def __init__(
        self,
        field: Field,
        demand: Demand,
        deficit: Int64,
        budgets: Sequence[PodDisruptionBudget],
        name_ranks: Rows,
    ) -> None:
        self._field = field
        self._demand = demand
        self._deficit = deficit
        self._budgets = budgets
        self._names = name_ranks
        self._bounds = Bounds(field, deficit, name_ranks)

    def __iter__(self) -> Iterator[Offer]:
        """Only if borrowers of what is lacking suffice nowhere do the others come into question (rule 10)."""
        found = False
        if self._borrowers_of_what_lacks():
            for offer in self._in_order():
                found = True
                yield offer
        if not found and self._demand.lenders is not None:
            yield from self._in_order(rest=True)

    def _borrowers_of_what_lacks(self) -> bool:
        lenders = self._demand.lenders
        if lenders is None:
            return True
        borrowed = (lenders.used > lenders.min) & lenders.counts  # [Q, R]
        return not len(self._bounds.lacking) or bool(borrowed[:, self._bounds.lacking].any())

    def _in_order(self, *, rest: bool = False) -> Iterator[Offer]:
        """A block of nodes is decided exactly only when its bound is below the cheapest offer so far."""
        left = _MOST_SINGLE_LANES if rest else len(self._bounds.lanes)
        offers: list[Offer] = []
        for block, others in self._bounds.blocks():
            offers += self._offers(self._bounds.lanes[block[:left]], rest=rest)
            left -= len(block)
            heapq.heapify(offers)
            while offers and (others is None or left <= 0 or offers[0].cost <= others):
                yield heapq.heappop(offers)
            if left <= 0:
                return

    def _offers(self, numbers: Rows, *, rest: bool) -> list[Offer]:
        lanes = Lanes(self._field, self._demand, numbers, self._deficit)
        lanes.remove()
        if rest:
            lanes.remove_rest()
        mark_violations(lanes, self._budgets)
        lanes.reprieve()
        costs = lanes.costs(self._names)
        return [
            Offer(costs[lane], int(lanes.slots[lane]), lanes, lane)
            for lane in lanes.satisfied.nonzero()[0].tolist()
        ]
