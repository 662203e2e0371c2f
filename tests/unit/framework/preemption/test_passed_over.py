"""Sets that the order of removal misses, as a victim before left too little of a loan for a cheaper pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler_core.framework.preemption import node_order
from scheduler_core.framework.preemption.cost_bounds import CandidateMatrix
from scheduler_core.framework.preemption.node_order import CheapestFirst
from tests.unit.framework.preemption.candidates import Given, Runs


def cpu(name: str, amount: int, priority: int = 0, slot: int = 0, **more: Any) -> Runs:
    return Runs(name, more.pop("namespace", "b"), slot, (amount, 0, 0), priority, **more)


def gpu(name: str, amounts: tuple[int, int], priority: int) -> Runs:
    return Runs(name, "b", 0, (*amounts, 0), priority)


# The first victim leaves 3 of the loan of 4: the second pod is passed over, and the third one is taken.
SMALL, FITS_ALONE, DEAR = cpu("small", 1), cpu("fits-alone", 4, 1), cpu("dear", 3, 5)
ONE_NODE = Given((SMALL, FITS_ALONE, DEAR), asks=(2, 0, 0), loans={"b": (4, None, None)})

CASES: dict[str, tuple[Given, list[list[str]]]] = {
    "the pod that was passed over goes alone": (ONE_NODE, [["fits-alone"]]),
    "and it goes as well where all that is lent comes back": (
        replace(ONE_NODE, asks=(4, 0, 0)),
        [["fits-alone"]],
    ),
    "where it would cost more, the others go": (
        replace(ONE_NODE, running=(SMALL, cpu("other", 3, 1), cpu("passed-over", 4, 5))),
        [["other"]],
    ),
    "where it reaches into a min, the others go": (
        replace(ONE_NODE, running=(SMALL, cpu("larger", 5, 1), DEAR)),
        [["dear"]],
    ),
    "where it violates a budget, the others go": (
        replace(ONE_NODE, running=(SMALL, replace(FITS_ALONE, app="x"), DEAR), budgets=(("b", "x", 0),)),
        [["dear"]],
    ),
    "with two resources": (
        replace(
            ONE_NODE,
            running=(gpu("small", (1, 1), 0), gpu("fits-alone", (4, 2), 1), gpu("dear", (3, 1), 5)),
            asks=(2, 1, 0),
            loans={"b": (4, 2, None)},
        ),
        [["fits-alone"]],
    ),
    "where the second resource passes it over": (
        replace(
            ONE_NODE,
            running=(gpu("small", (1, 1), 0), gpu("fits-alone", (2, 2), 1), gpu("dear", (3, 1), 5)),
            asks=(2, 1, 0),
            loans={"b": (9, 2, None)},
        ),
        [["fits-alone"]],
    ),
    "beside a pod of another quota": (
        replace(
            ONE_NODE,
            running=(SMALL, FITS_ALONE, DEAR, cpu("other", 1, namespace="c")),
            asks=(3, 0, 0),
            loans={"b": (4, None, None), "c": (1, None, None)},
        ),
        [["fits-alone"]],
    ),
    "its node comes before another one, whose victim matters more": (
        replace(ONE_NODE, running=(*ONE_NODE.running, cpu("elsewhere", 2, 3, slot=1)), slots=2),
        [["fits-alone"], ["elsewhere"]],
    ),
    "its node comes after another one, whose victim matters less": (
        replace(ONE_NODE, running=(*ONE_NODE.running, cpu("elsewhere", 2, 0, slot=1)), slots=2),
        [["elsewhere"], ["fits-alone"]],
    ),
    "among many pods that matter more than all victims": (
        replace(ONE_NODE, running=(*ONE_NODE.running, *(cpu(f"more-{i}", 1, 9) for i in "abcdefghijkl"))),
        [["fits-alone"]],
    ),
    "with too many candidates the order decides": (
        replace(ONE_NODE, running=(*ONE_NODE.running, *(cpu(f"more-{i}", 4, 5) for i in "abcdefghijkl"))),
        [["dear"]],
    ),
}


def order(given: Given) -> CheapestFirst:
    table = given.table()
    demand = given.demand(table)
    field = CandidateMatrix(table, demand, np.arange(given.slots), given.slots)
    deficit = np.repeat(demand.request[:, None], given.slots, axis=1)
    return CheapestFirst(field, demand, deficit, given.known_budgets(table), np.arange(given.slots))


@pytest.mark.parametrize("case", CASES)
def test_of_the_sets_within_loans_the_cheapest_goes(case: str) -> None:
    given, expected = CASES[case]
    found = list(order(given))
    assert [sorted(given.names(offer.rows)) for offer in found] == expected
    for offer in found:
        gone = [given.running[row] for row in offer.rows]
        assert offer.cost[:-1] == given.cost(gone, given.contended(given.asks))


ORDERS: dict[str, tuple[Given, int]] = {
    "nobody is passed over": (replace(ONE_NODE, loans={"b": (9, None, None)}), 0),
    "nobody is taken later": (replace(ONE_NODE, running=(SMALL, DEAR, cpu("last", 4, 9))), 0),
    "somebody is": (ONE_NODE, 1),
    "there are more nodes than are compared": (
        replace(
            ONE_NODE,
            running=tuple(
                replace(pod, name=f"{pod.name}-{slot}", slot=slot)
                for slot in range(40)
                for pod in ONE_NODE.running
            ),
            slots=40,
        ),
        node_order.MOST_EXACT_LANES,
    ),
}


@pytest.mark.parametrize("case", ORDERS)
def test_sets_are_compared_only_where_the_order_may_miss_one(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, expected = ORDERS[case]
    calls: list[int] = []
    real = node_order.best_subset

    def counted(*asked: Any) -> Any:
        calls.append(1)
        return real(*asked)

    monkeypatch.setattr(node_order, "best_subset", counted)
    # Once all offers are read, nodes without any are looked at as well.
    assert len(next(iter(order(given))).rows)
    assert len(calls) == expected
