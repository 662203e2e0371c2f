"""Proved victims are compared as wholes, gangs counted in; and the orders in which victims are given back."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import cast

import numpy as np

from scheduler_core.framework.preemption.candidates import CandidateSelection
from scheduler_core.framework.preemption.cost_bounds import Cost
from scheduler_core.framework.preemption.dry_run import Candidate, DisruptedGang
from scheduler_core.framework.preemption.loans import loans_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from tests.support.every import every_seed
from tests.unit.framework.preemption.candidates import WIDTH, Given, Runs, some
from tests.unit.framework.preemption.test_cross_node import Slow


class Asked:
    """The choice among victims in a small world, and what it speaks of."""

    def __init__(self, given: Given, contended: list[int] | None = None) -> None:
        self.given = given
        self.table = given.table()
        places = {pod.name: SimpleNamespace(row=row) for row, pod in enumerate(given.running)}
        state = cast(ClusterState, SimpleNamespace(table=self.table, placed=places))
        loans = loans_of(self.table, given.demand(self.table))
        wanted = list(range(WIDTH)) if contended is None else contended
        mask = np.isin(np.arange(WIDTH), wanted)
        self.choice = CandidateSelection(state, loans, given.known_budgets(self.table), lambda slot: mask)

    def pods(self, runs: list[Runs]) -> list[Pod]:
        return list(self.table.of(self.rows(runs)))

    def rows(self, runs: list[Runs]) -> np.ndarray:
        return np.array([self.given.running.index(pod) for pod in runs], dtype=np.int64)

    def found(self, runs: list[Runs], torn: list[list[Runs]] | None = None, slot: int = 0) -> Candidate:
        gangs = [DisruptedGang(f"g{n}", tuple(self.pods(members)), 1) for n, members in enumerate(torn or [])]
        return Candidate(slot, self.pods(runs), gangs)


def drawn(seed: int) -> tuple[random.Random, Given, list[Runs], list[int]]:
    rng = random.Random(seed)
    given = some(rng, slots=2, most=4)
    chosen = [pod for pod in given.running if rng.random() < 0.7]
    rng.shuffle(chosen)
    return rng, given, chosen, rng.sample(range(WIDTH), rng.randint(1, 2))


def gangs_of(rng: random.Random, chosen: list[Runs]) -> list[list[Runs]]:
    """Some of the chosen in gangs, each of one namespace."""
    members: dict[str, list[Runs]] = {}
    for pod in chosen:
        if rng.random() < 0.5:
            members.setdefault(pod.namespace, []).append(pod)
    return list(members.values())


@every_seed(range(200))
def test_wholes_are_priced_and_lawful_as_a_slow_reading_says(seed: int) -> None:
    rng, given, chosen, contended = drawn(seed)
    gangs = gangs_of(rng, chosen)
    asked = Asked(given, contended)
    found = asked.found(chosen, gangs)
    assert asked.choice.cost(found) == given.cost(chosen, contended), given
    alone = [[pod] for pod in chosen if not any(pod in gang for gang in gangs)]
    assert asked.choice.is_lawful(found) is given.lawful(chosen, [*gangs, *alone]), (given, gangs)
    assert asked.choice.is_lawful(asked.found(chosen)) is given.lawful(chosen), given


@every_seed(range(200))
def test_orders_of_giving_back(seed: int) -> None:
    rng, given, chosen, contended = drawn(seed)
    asked = Asked(given, contended)
    late = given.beyond_budgets(chosen)
    important = given.order(chosen)[::-1]
    spared = [pod for pod in important if pod in late], [pod for pod in important if pod not in late]
    rows = asked.rows(chosen)
    assert given.names(asked.choice.reprieve_order(rows)) == [pod.name for part in spared for pod in part]

    mask = np.isin(np.arange(WIDTH), contended)
    order = given.names(asked.choice.reprieve_order_of_all(rows, mask))
    removal = [*spared[1][::-1], *spared[0][::-1]]
    if given.loans is None:
        assert order == [pod.name for pod in removal[::-1]]
        return
    slow, taken = Slow(given, [], contended), list[Runs]()
    for stage in range(3):
        for pod in removal:
            if pod not in taken and slow.may_go(pod, [1] * WIDTH, stage):
                slow.gone.append(pod)
                taken.append(pod)
    taken += [pod for pod in removal if pod not in taken]
    assert order == [pod.name for pod in taken[::-1]], given

    gone = [pod for pod in chosen if rng.random() < 0.7]
    gangs = gangs_of(rng, gone)
    alone = [[pod] for pod in gone if not any(pod in gang for gang in gangs)]
    units = [*gangs, *alone]
    overdrawn = {
        name for name in "bcd" if not given.lawful([pod for pod in gone if pod.namespace == name], units)
    }
    again = asked.choice.unlawful_first(rows, asked.found(gone, gangs))
    assert given.names(again) == [
        pod.name for first in (True, False) for pod in chosen if (pod.namespace in overdrawn) is first
    ], given


def test_without_loans_no_order_is_changed() -> None:
    pods = [Runs("v", "b", 0, (1, 0, 0)), Runs("w", "b", 0, (1, 0, 0))]
    asked = Asked(Given(tuple(pods)))
    order = asked.rows(pods)
    assert asked.choice.unlawful_first(order, asked.found(pods)).tolist() == [0, 1]


CHEAP, DEAR, PROTECTED = (
    Runs("cheap", "b", 0, (1, 0, 0), priority=1),
    Runs("dear", "b", 1, (1, 0, 0), priority=2),
    Runs("protected", "b", 2, (1, 0, 0), priority=0, app="x"),
)
FOREIGN = Runs("foreign", "c", 0, (1, 0, 0))
CHOICE = Given(
    (CHEAP, DEAR, PROTECTED, FOREIGN),
    loans={"b": (5, 0, 0), "c": (0, 0, 0)},
    budgets=(("b", "x", 0),),
    slots=3,
)


def price(runs: Runs, more: int = 0) -> Cost:
    """What arithmetic says, or a victim more important."""
    reach, strangers, violations, top, *rest = CHOICE.cost([runs], [0])
    return (reach, strangers, violations, top + more, *rest)


def test_the_cheapest_lawful_one_is_kept_the_first_of_equals() -> None:
    asked = Asked(CHOICE, [0])
    choice = asked.choice
    assert not choice.offer(None)
    assert not choice.offer(asked.found([FOREIGN])), "its quota lends nothing"
    assert choice.best is None
    for runs, best in ((DEAR, DEAR), (CHEAP, CHEAP), (DEAR, CHEAP), (PROTECTED, CHEAP)):
        choice.offer(asked.found([runs]))
        assert choice.best is not None
        assert [pod.name for pod in choice.best.victims] == [best.name]
    first = choice.best
    choice.offer(asked.found([CHEAP], slot=1))
    assert choice.best is first


def test_no_other_can_be_cheaper_where_it_costs_no_more_than_arithmetic_said() -> None:
    asked = Asked(CHOICE, [0])
    assert not asked.choice.offer(asked.found([DEAR]), price(DEAR, -1))
    assert asked.choice.offer(asked.found([DEAR]), price(DEAR))
    assert asked.choice.offer(asked.found([PROTECTED]), price(DEAR, 1)), "the best so far is cheap enough"


def test_where_arithmetic_says_nothing_only_a_whole_gang_makes_others_worth_a_look() -> None:
    asked = Asked(CHOICE, [0])
    assert asked.choice.offer(asked.found([DEAR]))
    assert not asked.choice.offer(asked.found([CHEAP], [[CHEAP]]))


def test_the_best_is_flawed_where_it_hurts_a_budget() -> None:
    asked = Asked(CHOICE, [0])
    asked.choice.offer(asked.found([PROTECTED]))
    assert asked.choice.flawed
    asked.choice.offer(asked.found([DEAR]))
    assert not asked.choice.flawed
