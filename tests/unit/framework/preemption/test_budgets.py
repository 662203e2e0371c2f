"""Which evictions exceed a disruption budget, spent from the most important pod down."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler_core.framework.preemption.budgets import Budgets, violating
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import BudgetBuilder, make_budget, make_node, make_pod
from tests.support.every import every_seed


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


def placed(pods: list[Pod]) -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=64).obj())
    for pod in pods:
        state.put_pod(pod)
    return state


def web(name: str, **labels: str) -> Pod:
    return make_pod(f"a/{name}").labels(**labels).on("n").obj()


WEB = make_budget("a/web").selects(app="web")
PLACED = {
    "the most important one spends the budget": (
        [web("least", app="web"), web("most", app="web")],
        [WEB.allows(1).obj()],
        [True, False],
    ),
    "pods that no budget selects exceed none": ([web("job", app="job")], [WEB.allows(0).obj()], [False]),
    "an empty selector takes every pod with labels": (
        [web("bare"), web("job", app="job")],
        [make_budget("a/all").selects().allows(0).obj()],
        [False, True],
    ),
    "budgets of other namespaces do not count": (
        [web("p", app="web")],
        [make_budget("b/web").selects(app="web").allows(0).obj()],
        [False],
    ),
    "a pod whose disruption is counted already costs nothing": (
        [web("gone", app="web"), web("most", app="web")],
        [WEB.allows(1, "gone").obj()],
        [False, False],
    ),
    "one of two budgets is enough": (
        [web("p", app="web", tier="x")],
        [WEB.allows(5).obj(), make_budget("a/tier").selects(tier="x").allows(0).obj()],
        [True],
    ),
    "every budget is spent, also by a pod that exceeds another": (
        [web("third", app="web"), web("second", app="web", tier="x"), web("first", tier="x")],
        [WEB.allows(1).obj(), make_budget("a/tier").selects(tier="x").allows(1).obj()],
        [True, True, False],
    ),
}


@pytest.mark.parametrize(("pods", "budgets", "expected"), PLACED.values(), ids=PLACED)
def test_beyond(pods: list[Pod], budgets: list[PodDisruptionBudget], expected: list[bool]) -> None:
    state = placed(pods)
    rows = np.array([state.placed[pod.uid].row for pod in pods])
    assert Budgets(state.table, budgets).beyond(rows).tolist() == expected
    assert violating(pods[::-1], budgets) == expected[::-1]


@every_seed(range(30))
def test_lanes_are_as_if_each_were_alone(seed: int) -> None:
    rng = random.Random(seed)
    keys = ("app", "tier")
    pods = [
        make_pod(f"{rng.choice('abc')}/p{i}").labels(**{key: rng.choice("xy") for key in keys}).on("n").obj()
        for i in range(24)
    ]
    budgets = [
        make_budget(f"{rng.choice('ab')}/b{i}")
        .selects(**{rng.choice(keys): "x"})
        .allows(rng.randint(0, 3))
        .obj()
        for i in range(4)
    ]
    state = placed(pods)
    rows = np.array([state.placed[pod.uid].row for pod in pods]).reshape(6, 4)
    among = np.array([[rng.random() < 0.7 for _ in range(4)] for _ in range(6)])
    known = Budgets(state.table, budgets)
    found = known.protection(rows, among).beyond(among, known.allowed)
    for lane in range(4):
        here = [
            pod for pod, asked in zip(state.table.of(rows[:, lane]), among[:, lane], strict=True) if asked
        ]
        assert found[among[:, lane], lane].tolist() == violating(here[::-1], budgets)[::-1]
    assert not found[~among].any()
