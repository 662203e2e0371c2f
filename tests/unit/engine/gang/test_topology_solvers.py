"""Groups whose profile names another solver, and what becomes of them where it is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler_core.controllers.topology_results import results_of
from scheduler_core.topology.solvers import SOLVERS
from tests.unit.engine.topology_scheduler import TopologyScheduler, gone, member, members, nodes, why

KEY = "a/g ConfigMap"


class Solves:
    """A solver that does what it is told."""

    name = "mine"

    def __init__(self, deed: Callable[[Any], Any]) -> None:
        self.deed = deed

    def solve(self, question: Any, expired: Callable[[], bool]) -> Any:
        return self.deed(question)


def with_solver(made: TopologyScheduler, deed: Callable[[Any], Any]) -> TopologyScheduler:
    made.state.topology.solvers = {**SOLVERS, "mine": Solves(deed)}
    for name, settings in made.state.topology.settings.items():
        made.state.topology.settings[name] = replace(settings, solver="mine")
    return made


def crash(question: Any) -> Any:
    raise RuntimeError("out of ideas")


BROKEN = {
    "raises": (crash, "solver mine failed: RuntimeError('out of ideas')"),
    "lies about room": (
        lambda question: np.array([9, 0, 0, 0]),
        "the answer of solver mine is not used: it puts 9 members on node n0, which has room for 2",
    ),
    "exceeds a rule": (
        lambda question: np.array([1, 0, 1, 0]),
        "is not used: it uses 2 units of level rack below one parent, against rack.hard=pack",
    ),
    "finds nothing": (lambda question: None, "solver mine found no place for 2 members; there is one"),
}
ONE_RACK = '{"rack": {"type": "pack", "hard": true}}'


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_solver_is_an_error_on_the_group_and_places_no_pod(name: str) -> None:
    deed, said = BROKEN[name]
    made = with_solver(TopologyScheduler(2, 2, 2, 2), deed)
    made.group("g", 2, ONE_RACK, priority="9")
    made.group("low", 1, "{}", priority="0")
    made.put(member("low", 0).on("n3"), *members("g", 2))
    decisions = made.step()
    (text,) = why(decisions)
    assert said in text
    assert (nodes(decisions), gone(decisions)) == ({}, set())
    results = results_of(made.state, made.state.gangs.gangs[KEY])
    assert results["status"] == "Pending"
    assert said in results["reason"]


def test_a_lawful_answer_is_where_the_group_goes() -> None:
    made = with_solver(TopologyScheduler(2, 2, 2, 2), lambda question: np.array([0, 0, 1, 1]))
    made.group("g", 2, ONE_RACK)
    made.put(*members("g", 2))
    assert nodes(made.step()) == {"g-0": "n2", "g-1": "n3"}
    assert results_of(made.state, made.state.gangs.gangs[KEY])["optimal"] == "false"


def test_other_groups_are_placed_beside_one_whose_solver_fails() -> None:
    made = with_solver(
        TopologyScheduler(2, 2),
        lambda question: crash(question) if question.size == 2 else np.array([1, 0]),
    )
    made.group("g", 2)
    made.group("one", 1)
    made.put(*members("g", 2), member("one", 0))
    assert nodes(made.step()) == {"one-0": "n0"}
