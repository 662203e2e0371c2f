"""Nodes in the order of what their victims cost, found without looking at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.bounds import FLAWS, Bounds, Cost, Field
from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.exact import MOST_CANDIDATES, best_subset
from scheduler_core.framework.preemption.lanes import Lanes
from scheduler_core.framework.preemption.loans import contended_by, loans_of
from scheduler_core.framework.preemption.prices import Prices

# Lanes that are looked at one by one, where the stages over all lanes at once found nothing.
_MOST_SINGLE_LANES: Final = 512
# Lanes that are decided over all subsets of their candidates.
MOST_EXACT_LANES: Final = 32


class Offer(NamedTuple):
    """The price of a node, its slot in the node table, and the rows of its victims, most important first."""

    cost: Cost
    slot: int
    rows: Rows

    @property
    def flawed(self) -> bool:
        """Whether another set of victims might spare a min, a quota or a budget that this one hurts."""
        return any(self.cost[:FLAWS])


class CheapestFirst:
    """Offers of a field's nodes, cheapest first. `deficit` int64 [R, L] is what must come free on each."""

    def __init__(
        self, field: Field, demand: Demand, deficit: Int64, budgets: Budgets, name_ranks: Rows
    ) -> None:
        self._field = field
        self._demand = demand
        self._loans = loans_of(field.table, demand)
        self._deficit = deficit
        self._budgets = budgets
        self._names = name_ranks
        self._bounds = Bounds(field, self._loans, deficit, name_ranks)

    def __iter__(self) -> Iterator[Offer]:
        """What an order of removal finds, as long as nothing speaks against it; then few nodes exactly."""
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
        """Only if borrowers of what is lacking suffice nowhere do the others come into question (rule 10)."""
        found = False
        for offer in self._in_order():
            found = True
            yield offer
        if not found and self._loans is not None:
            yield from self._in_order(rest=True)

    def _in_order(self, *, rest: bool = False) -> Iterator[Offer]:
        """A block of nodes is decided exactly only when its bound is below the cheapest offer so far."""
        left = _MOST_SINGLE_LANES if rest else len(self._bounds.lanes)
        offers: list[tuple[Cost, Lanes, int]] = []
        for block, others in self._bounds.blocks():
            offers += self._offers(self._bounds.lanes[block[:left]], rest=rest)
            left -= len(block)
            heapq.heapify(offers)
            while offers and (others is None or left <= 0 or offers[0][0] <= others):
                cost, lanes, lane = heapq.heappop(offers)
                yield Offer(cost, int(lanes.slots[lane]), lanes.victims(lane))
            if left <= 0:
                return

    def _offers(self, numbers: Rows, *, rest: bool) -> list[tuple[Cost, Lanes, int]]:
        lanes = Lanes(self._field, self._loans, numbers, self._deficit, self._budgets)
        lanes.remove()
        if rest:
            lanes.remove_rest()
        lanes.reprieve()
        costs = lanes.costs(self._names)
        return [(costs[lane], lanes, lane) for lane in lanes.satisfied.nonzero()[0].tolist()]

    # Few nodes exactly

    def _exactly(self, done: set[int]) -> tuple[set[int], list[Offer]]:
        """(slots that were decided, their offers in order): the first nodes by their bound."""
        positions = chain.from_iterable(block.tolist() for block, _ in self._bounds.blocks())
        numbers = (int(self._bounds.lanes[position]) for position in positions)
        todo = (number for number in numbers if int(self._field.slots[number]) not in done)
        decided: set[int] = set()
        found: list[Offer] = []
        for number in islice(todo, MOST_EXACT_LANES):
            slot = int(self._field.slots[number])
            rows = self._useful(number)
            if len(rows) > MOST_CANDIDATES:
                continue
            decided.add(slot)
            offer = self._best(slot, rows, self._deficit[:, number])
            if offer is not None:
                found.append(offer)
        return decided, sorted(found, key=lambda offer: offer.cost)

    def _useful(self, number: int) -> Rows:
        """Rows of a lane's candidates that free something that is lacking there, in order of importance."""
        rows = self._field.rows[self._field.chosen[:, number], number].astype(np.int64)
        lacking = np.flatnonzero(self._deficit[:, number] > 0)
        out: Rows = rows[(self._field.table.requests[lacking][:, rows] > 0).any(axis=0)]
        return out

    def _best(self, slot: int, rows: Rows, deficit: Int64) -> Offer | None:
        prices = Prices(self._field.table, self._loans, self._budgets, rows)
        frees = self._field.table.requests[: len(deficit)].T[rows]  # [J, R]
        best = best_subset(prices, frees, deficit, contended_by(self._demand, deficit))
        if best is None:
            return None
        cost = (*best.keys, float(self._names[slot]))
        return Offer(cost, slot, rows[best.places][::-1])
