"""What sets of victims cost and which are lawful, for all subsets at once; and the best of them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from scheduler_core.framework.preemption.cost_bounds import NO_VICTIM, PRIORITY_OFFSET
from scheduler_core.framework.preemption.loans import contended_by, loans_of
from scheduler_core.framework.preemption.victim_costs import VictimCosts, best_subset
from tests.support.every import every_seed
from tests.unit.framework.preemption.candidates import WIDTH, Given, Runs, some


def prices_of(given: Given, pods: list[Runs]) -> VictimCosts:
    table = given.table()
    rows = np.array([given.running.index(pod) for pod in pods], dtype=np.int64)
    return VictimCosts(table, loans_of(table, given.demand(table)), given.known_budgets(table), rows)


@every_seed(range(60))
def test_all_subsets_are_priced_as_each_alone(seed: int) -> None:
    rng = random.Random(seed)
    given = some(rng, slots=1, most=6)
    pods = given.on(0)
    prices = prices_of(given, pods)
    sets = list(itertools.product((0, 1), repeat=len(pods)))
    picks = np.array(sets, dtype=np.int64).reshape(len(sets), len(pods))
    contended = given.contended(given.need)
    mask = np.isin(np.arange(WIDTH), contended)
    together = []
    for name in "bcd":
        own = [place for place, pod in enumerate(pods) if pod.namespace == name]
        together += [own[start : start + 2] for start in range(0, len(own), 2)]
    lawful, keys = prices.lawful(picks), prices.keys(picks, mask)
    in_units = prices.lawful(picks, together)
    for number, chosen in enumerate(sets):
        gone = [pod for pod, taken in zip(pods, chosen, strict=True) if taken]
        assert tuple(key[number] for key in keys) == given.cost(gone, contended), (given, gone)
        assert bool(lawful[number]) is given.lawful(gone), (given, gone)
        units = [[pods[place] for place in unit] for unit in together]
        assert bool(in_units[number]) is given.lawful(gone, units), (given, gone)


def test_an_empty_set_of_victims_has_no_cost() -> None:
    given = Given((), loans={"b": (1, 1, 1)})
    prices = prices_of(given, [])
    none = np.zeros((1, 0), dtype=np.int64)
    assert [key[0] for key in prices.keys(none, np.ones(WIDTH, dtype=np.bool_))] == [
        0, 0, 0, NO_VICTIM, 0, 0, 0, -np.inf,
    ]  # fmt: skip
    assert prices.lawful(none).tolist() == [True]


def test_every_victim_adds_to_the_price_however_low_its_priority() -> None:
    pods = [Runs(f"v{i}", "b", 0, (1, 0, 0), priority=-5) for i in range(2)]
    keys = prices_of(Given(tuple(pods)), pods).keys(
        np.array([[1, 0], [1, 1]]), np.ones(WIDTH, dtype=np.bool_)
    )
    assert keys[4].tolist() == [PRIORITY_OFFSET - 5, 2 * (PRIORITY_OFFSET - 5)]


@every_seed(range(60))
def test_the_best_subset_is_the_cheapest_lawful_one(seed: int) -> None:
    rng = random.Random(1000 + seed)
    given = some(rng, slots=1, most=6)
    pods = given.on(0)
    needs = [rng.choice((0, 1, 2, 4)) for _ in range(WIDTH)]
    contended = given.contended(tuple(needs))
    best = best_subset(
        prices_of(given, pods),
        np.array([pod.sizes for pod in pods], dtype=np.int64).reshape(len(pods), WIDTH),
        np.array(needs, dtype=np.int64),
        np.isin(np.arange(WIDTH), contended),
    )
    every = [gone for size in range(len(pods) + 1) for gone in itertools.combinations(pods, size)]
    ways = [
        gone
        for gone in every
        if given.lawful(gone) and all(sum(pod.sizes[r] for pod in gone) >= needs[r] for r in range(WIDTH))
    ]
    if not ways:
        assert best is None
        return
    assert best is not None
    chosen = [pods[place] for place in best.places]
    assert tuple(chosen) in ways
    assert best.keys == given.cost(chosen, contended) == min(given.cost(gone, contended) for gone in ways)


@pytest.mark.parametrize(
    ("lacks", "contended"), [((0, 2, 0), [False, True, False]), ((0, 0, 0), [True, False, True])]
)
def test_victims_go_for_what_lacks_or_for_all_that_is_asked(
    lacks: tuple[int, ...], contended: list[bool]
) -> None:
    given = Given((), asks=(1, 0, 2))
    demand = given.demand(given.table())
    assert contended_by(demand, np.array(lacks, dtype=np.int64)).tolist() == contended


def test_a_namespace_without_a_loan_borrows_no_contended_resource() -> None:
    given = Given((Runs("v", "b", 0, (1, 1, 1)),), loans={"b": (None, 0, 1), "c": (1, 0, 0)})
    table = given.table()
    loans = loans_of(table, given.demand(table))
    assert loans is not None
    asked = np.eye(WIDTH, dtype=np.bool_)
    assert [loans.borrowers(row).tolist() for row in asked] == [[False, True], [False, False], [True, False]]
    assert [loans.smallest(row) for row in range(WIDTH)] == [1, 0, 0]
    none = Given((), loans={"b": (None, None, None)})
    alone = loans_of(none.table(), none.demand(none.table()))
    assert alone is not None
    assert alone.smallest(0) > 10**18, "no loan is smaller than anything"


def test_parts_beyond_loans_are_rounded_up_and_bounded() -> None:
    given = Given((Runs("v", "b", 0, (1, 0, 0)),), asks=(3, 0, 0), loans={"b": (1, 1, 1)})
    table = given.table()
    loans = loans_of(table, given.demand(table))
    assert loans is not None
    every, none = np.ones((1, 2), dtype=np.bool_), np.zeros((1, 2), dtype=np.bool_)

    def excess(taken: list[int], asked: np.ndarray = every) -> int:
        return int(loans.excess(np.array([taken]), np.array([0]), np.array([0, 1]), asked)[0])

    assert excess([1, 1]) == 0
    assert excess([2, 1]) == 333_334
    assert excess([2, 2]) == 1_333_334, "of what is not asked for every one counts as a whole"
    assert excess([2, 2], none) == 0
    assert excess([2**60, 2**60]) == 2**51
