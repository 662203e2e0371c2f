"""Which evictions exceed a disruption budget, spent from the most important pod down."""

from __future__ import annotations

import pytest

from scheduler_core.framework.preemption.budgets import violating
from scheduler_core.model.pdb import PodDisruptionBudget
from tests.support.builders import BudgetBuilder, make_budget, make_pod


def budget(name: str = "b", app: str = "web", *, allowed: int = 0, namespace: str = "a") -> BudgetBuilder:
    return make_budget(f"{namespace}/{name}").selects(app=app).allows(allowed)


PODS = [make_pod(f"a/p{number}").labels(app="web", tier="x").obj() for number in range(3)]
CASES: list[tuple[str, list[BudgetBuilder], list[bool]]] = [
    ("no budget", [], [False, False, False]),
    ("nothing may be disrupted", [budget()], [True, True, True]),
    ("one may, the most important", [budget(allowed=1)], [False, True, True]),
    ("all may", [budget(allowed=3)], [False, False, False]),
    ("another namespace", [budget(namespace="b")], [False, False, False]),
    ("other labels", [budget(app="db")], [False, False, False]),
    ("the tightest of two", [budget("b", allowed=2), budget("c", allowed=1)], [False, True, True]),
    ("of two one is left", [budget("b", allowed=3), budget("c", allowed=0)], [True, True, True]),
    ("one that is disrupted already costs nothing more", [budget().allows(0, "p1")], [True, False, True]),
    ("and takes nothing from the others", [budget().allows(1, "p0")], [False, False, True]),
]


@pytest.mark.parametrize(("budgets", "hurt"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_evictions_beyond_a_budget(budgets: list[BudgetBuilder], hurt: list[bool]) -> None:
    made: list[PodDisruptionBudget] = [item.obj() for item in budgets]
    assert violating(PODS, made) == hurt


def test_a_pod_without_labels_is_in_no_budget() -> None:
    everything = make_budget("a/all")
    everything.raw["spec"]["selector"] = {}
    assert violating([make_pod("a/p").obj(), PODS[0]], [everything.obj()]) == [False, True]
