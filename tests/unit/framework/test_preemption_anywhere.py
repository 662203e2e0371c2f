"""Who is taken of all candidates of the cluster, where they are too many to look at all sets: pod by pod."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from scheduler_core.framework.preemption import across
from scheduler_core.framework.preemption.across import Anywhere, Books
from scheduler_core.framework.preemption.loans import loans_of
from tests.unit.framework.candidates import WIDTH, Given, Runs, Sizes, some

WITHIN, BEYOND, OTHERS = range(3)


class Slow:
    """What is left of loans and budgets, in plain numbers."""

    def __init__(self, given: Given, local: list[Runs], contended: list[int]) -> None:
        self.given = given
        self.gone = list(local)
        self.contended = contended

    def may_go(self, pod: Runs, needed: list[int], stage: int) -> bool:
        if not any(pod.sizes[r] > 0 and needed[r] > 0 for r in range(WIDTH)):
            return False
        if self.given.loans is None:
            return True
        left = self.given.left(pod.namespace, self.gone)
        known = {r: value for r, value in enumerate(left) if value is not None}
        asked = known if stage == OTHERS else {r: known[r] for r in self.contended if r in known}
        if not any(value > 0 for value in asked.values()):
            return False
        return stage != WITHIN or all(pod.sizes[r] <= max(0, value) for r, value in asked.items())

    def violates(self, pod: Runs) -> bool:
        return any(
            sum(other.namespace == name and other.app == app for other in self.gone) >= allowed
            for name, app, allowed in self.given.budgets
            if (pod.namespace, pod.app) == (name, app)
        )

    def sweep(self, rows: list[Runs], need: Sizes, stages: tuple[int, ...]) -> set[Runs] | None:
        left, found = list(need), set[Runs]()
        for stage, late in itertools.product(stages, (False, True)):
            for pod in rows:
                if pod not in found and self.may_go(pod, left, stage) and (late or not self.violates(pod)):
                    self.gone.append(pod)
                    found.add(pod)
                    left = [value - pod.sizes[r] for r, value in enumerate(left)]
        return None if any(value > 0 for value in left) else found


def slow_rest(given: Given, local: list[Runs], contended: list[int], need: Sizes) -> set[Runs] | None:
    rows = given.order(pod for pod in given.running if pod.eligible and pod not in local)
    found = Slow(given, local, contended).sweep(rows, need, (WITHIN, BEYOND, OTHERS))
    if found is None and given.loans is not None:
        shares = {pod: sum(Fraction(pod.sizes[r], n) for r, n in enumerate(need) if n) for pod in rows}
        largest = sorted(rows, key=lambda pod: -shares[pod])
        found = Slow(given, local, contended).sweep(largest, need, (WITHIN, OTHERS))
    return found


def anywhere(given: Given) -> Anywhere:
    table = given.table()
    demand = given.demand(table)
    return Anywhere(table, demand, loans_of(table, demand), given.known_budgets(table))


def mask(contended: list[int]) -> np.ndarray:
    return np.isin(np.arange(WIDTH), contended)


@pytest.mark.parametrize("chunk", [1, 4, 1024])
@pytest.mark.parametrize("batch", range(5))
def test_the_rest_is_taken_from_the_least_important_up(
    batch: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(across, "_CHUNK", chunk)
    for seed in range(batch, 120, 5):
        rng = random.Random(seed)
        given = some(rng, most=4)
        local = [pod for pod in given.running if rng.random() < 0.15]
        need = tuple(rng.choice((0, 1, 3, 5)) for _ in range(WIDTH))
        contended = sorted({r for r in range(WIDTH) if need[r] or rng.random() < 0.3})
        rows = np.array([given.running.index(pod) for pod in local], dtype=np.int64)
        found = anywhere(given).rest(rows, mask(contended), np.array(need, dtype=np.int64))
        expected = slow_rest(given, local, contended, need)
        told = f"seed {seed}: {given}, {local}, {need}, {contended}"
        assert (found is None) is (expected is None), told
        if found is not None and expected is not None:
            assert sorted(given.names(found)) == sorted(pod.name for pod in expected), told


def test_a_larger_victim_goes_where_the_least_important_would_end_a_loan_in_vain() -> None:
    """b borrows one CPU, so one of its pods may go; only v frees memory, too, and is the larger part."""
    running = (
        Runs("u", "b", 0, (3, 0, 0)),
        Runs("v", "b", 0, (2, 1, 0), priority=1),
        Runs("w", "c", 0, (2, 0, 0), priority=2),
    )
    given = Given(running, loans={"b": (1, 0, 0), "c": (2, 0, 0)})
    found = anywhere(given).rest(np.zeros(0, dtype=np.int64), mask([0, 1]), np.array([4, 1, 0]))
    assert found is not None
    assert sorted(given.names(found)) == ["v", "w"]


@pytest.mark.parametrize("seed", range(40))
def test_books_say_of_many_pods_what_each_may(seed: int) -> None:
    rng = random.Random(seed)
    given = some(rng, most=4)
    table = given.table()
    contended = rng.sample(range(WIDTH), rng.randint(1, 2))
    local = [pod for pod in given.running if rng.random() < 0.2]
    rows = np.array([given.running.index(pod) for pod in local], dtype=np.int64)
    loans, budgets = loans_of(table, given.demand(table)), given.known_budgets(table)
    books = Books(table, loans, budgets, rows, mask(contended))
    slow = Slow(given, local, contended)
    others = [pod for pod in given.running if pod not in local]
    for _ in range(4):
        needed = [rng.choice((0, 0, 1, -1)) for _ in range(WIDTH)]
        for stage in (WITHIN, BEYOND, OTHERS):
            every = np.array([given.running.index(pod) for pod in others], dtype=np.int64)
            found = given.names(books.may_go(every, np.array(needed, dtype=np.int64), stage))
            assert found == [pod.name for pod in others if slow.may_go(pod, needed, stage)]
        for pod in others:
            assert books.violates(given.running.index(pod)) is slow.violates(pod)
        if others:
            pod = others.pop(rng.randrange(len(others)))
            books.take(given.running.index(pod))
            slow.gone.append(pod)


@pytest.mark.parametrize("seed", range(80))
def test_the_best_of_all_sets_for_room_here_and_quota_anywhere(seed: int) -> None:
    rng = random.Random(seed)
    given = some(rng, most=3)
    slot = rng.randrange(given.slots)
    lacking = tuple(rng.choice((0, 0, 1, 2)) for _ in range(WIDTH))
    need = tuple(rng.choice((0, 1, 2, 3)) for _ in range(WIDTH))
    found = anywhere(given).best(slot, np.array(lacking), np.array(need))
    contended = given.contended(tuple(map(max, lacking, need)))

    def enough(gone: tuple[Runs, ...]) -> bool:
        here = [pod for pod in gone if pod.slot == slot]
        return all(
            sum(pod.sizes[r] for pod in gone) >= need[r] and sum(pod.sizes[r] for pod in here) >= lacking[r]
            for r in range(WIDTH)
        )

    pods = given.order(pod for pod in given.running if pod.eligible)
    every = [gone for size in range(len(pods) + 1) for gone in itertools.combinations(pods, size)]
    ways = [gone for gone in every if enough(gone) and given.lawful(gone)]
    if not ways:
        assert found is None
        return
    assert found is not None
    chosen = [given.running[row] for row in found.tolist()]
    assert given.order(chosen) == chosen[::-1], "the most important first"
    assert tuple(chosen[::-1]) in ways
    assert given.cost(chosen, contended) == min(given.cost(gone, contended) for gone in ways)


def test_too_many_candidates_are_not_tried_but_those_that_free_nothing_needed_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    useful = [Runs("cpu", "b", 1, (1, 0, 0)), Runs("memory", "b", 0, (0, 1, 0))]
    useless = [
        Runs("elsewhere", "b", 1, (0, 1, 0)),
        Runs("gpu", "b", 0, (0, 0, 1)),
        Runs("none", "b", 0, (0, 0, 0)),
    ]
    given = Given((*useful, *useless), slots=2)
    need, lacking = np.array([1, 0, 0]), np.array([0, 1, 0])
    monkeypatch.setattr(across, "MOST_CANDIDATES", 2)
    found = anywhere(given).best(0, lacking, need)
    assert found is not None
    assert set(given.names(found)) == {"cpu", "memory"}
    monkeypatch.setattr(across, "MOST_CANDIDATES", 1)
    assert anywhere(given).best(0, lacking, need) is None


@pytest.mark.parametrize("seed", range(80))
def test_what_may_come_free_within_loans(seed: int) -> None:
    """Each quota gives what its pods hold that are no larger than its loan, up to the loan."""
    given = some(random.Random(seed), most=3)
    found = anywhere(given).frees_within_loans(np.array(given.need))
    if given.loans is None:
        assert found
        return
    lacks = [r for r in range(WIDTH) if given.need[r]]
    for r in lacks:
        total = 0
        for name, loan in given.loans.items():
            amount = 0
            for pod in given.running:
                fits = all(loan[k] is None or pod.sizes[k] <= max(0, loan[k] or 0) for k in lacks)
                if pod.namespace == name and pod.eligible and fits:
                    amount += pod.sizes[r]
            total += amount if loan[r] is None else min(amount, max(0, loan[r] or 0))
        if total < given.need[r]:
            assert not found
            return
    assert found
