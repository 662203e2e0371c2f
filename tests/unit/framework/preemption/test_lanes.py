"""Who goes on each of many nodes at once, held against one node after the other, pod by pod."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from scheduler_core.framework.preemption.cost_bounds import CandidateMatrix
from scheduler_core.framework.preemption.lanes import CandidateLanes
from scheduler_core.framework.preemption.loans import loans_of
from tests.support.every import every_seed
from tests.unit.framework.preemption.candidates import WIDTH, Given, Runs, Sizes, some

WITHIN, BEYOND, OTHERS = range(3)


class OneNode:
    """The candidates of one node, and when each of them was taken; `lacks` is what must come free."""

    def __init__(self, given: Given, slot: int, lacks: Sizes) -> None:
        self.given = given
        self.lacks = lacks
        self.pods = given.on(slot)
        self.late = given.beyond_budgets(self.pods)
        self.gone: dict[Runs, int] = {}

    def missing(self) -> list[int]:
        freed = [sum(pod.sizes[r] for pod in self.gone) for r in range(WIDTH)]
        return [r for r in range(WIDTH) if freed[r] < self.lacks[r]]

    def in_turn(self) -> list[Runs]:
        """Whom no budget protects, then the others, least important first."""
        return [pod for late in (False, True) for pod in self.pods if (pod in self.late) is late]

    def helps(self, pod: Runs) -> bool:
        return pod not in self.gone and any(pod.sizes[r] for r in self.missing())

    def fits_loan(self, pod: Runs, left: list[int | None], contended: list[int], *, within: bool) -> bool:
        """Whether a stage takes it: of a lender of something contended, or also no more than is lent."""
        known = [(r, value) for r in contended if (value := left[r]) is not None]
        if within and any(pod.sizes[r] > max(0, value) for r, value in known):
            return False
        return any(value > 0 and pod.sizes[r] > 0 for r, value in known)

    def remove(self) -> None:
        contended = [r for r in range(WIDTH) if self.lacks[r]]
        for stage in (WITHIN, BEYOND) if self.given.loans is not None else (WITHIN,):
            for pod in self.in_turn():
                if not self.helps(pod):
                    continue
                if self.given.loans is not None:
                    # What was taken of resources that are lacking nowhere is not looked at in these stages.
                    left = self.given.left(pod.namespace, self.gone)
                    if not self.fits_loan(pod, left, contended, within=stage == WITHIN):
                        continue
                self.gone[pod] = stage

    def remove_rest(self) -> None:
        if self.given.loans is None or not self.missing():
            return
        self._sweep(self.in_turn(), OTHERS)
        if self.missing():
            self.gone.clear()
            shares = {
                pod: sum(Fraction(pod.sizes[r], max(1, self.lacks[r])) for r in range(WIDTH) if self.lacks[r])
                for pod in self.pods
            }
            largest = sorted(self.pods, key=lambda pod: -shares[pod])
            for stage in (WITHIN, OTHERS):
                self._sweep(largest, stage)

    def _sweep(self, order: list[Runs], stage: int) -> None:
        """Each as long as its quota borrows what it uses; first those within what is borrowed."""
        contended = [r for r in range(WIDTH) if self.lacks[r]]
        for pod in order:
            if not self.helps(pod) or not self.given.uses_borrowed([pod], pod.namespace, self.gone):
                continue
            left = self.given.left(pod.namespace, self.gone)
            lent = [(r, value) for r in contended if (value := left[r]) is not None]
            if stage == OTHERS or all(pod.sizes[r] <= max(0, value) for r, value in lent):
                self.gone[pod] = stage

    def reprieve(self) -> None:
        for stage in (OTHERS, BEYOND, WITHIN):
            for pod in self.in_turn()[::-1]:
                if self.gone.get(pod) == stage:
                    del self.gone[pod]
                    if self.missing():
                        self.gone[pod] = stage

    def victims(self) -> list[str]:
        return [pod.name for pod in self.pods[::-1] if pod in self.gone]


@pytest.mark.parametrize("rest", [False, True], ids=["victims", "victims and the rest"])
@every_seed(range(200))
def test_every_lane_is_as_if_it_were_alone(seed: int, rest: bool) -> None:
    rng = random.Random(seed)
    given = some(rng)
    lacks = [tuple(rng.choice((0, 0, 1, 3, 5)) for _ in range(WIDTH)) for _ in range(given.slots)]
    table = given.table()
    demand = given.demand(table)
    numbers = np.array(rng.sample(range(given.slots), rng.randint(1, given.slots)))
    ranks = np.array(rng.sample(range(9), given.slots))
    field = CandidateMatrix(table, demand, np.arange(given.slots), given.slots)
    deficit = np.array(lacks, dtype=np.int64).T
    lanes = CandidateLanes(field, loans_of(table, demand), numbers, deficit, given.known_budgets(table))
    alone = [OneNode(given, slot, lacks[slot]) for slot in numbers.tolist()]
    lanes.remove()
    for node in alone:
        node.remove()
    told = f"seed {seed}: {given}, {lacks}"
    assert [given.names(lanes.victims(n)) for n in range(len(numbers))] == [
        node.victims() for node in alone
    ], told
    if rest:
        lanes.remove_rest()
        for node in alone:
            node.remove_rest()
    lanes.reprieve()
    costs = lanes.costs(ranks)
    for lane, node in enumerate(alone):
        node.reprieve()
        assert given.names(lanes.victims(lane)) == node.victims(), told
        assert bool(lanes.satisfied[lane]) is not bool(node.missing()), told
        if not node.missing():
            contended = [r for r in range(WIDTH) if node.lacks[r]]
            expected = (*given.cost(list(node.gone), contended), ranks[numbers[lane]])
            assert costs[lane] == expected, told
