"""Solvers: checks of their answers, and what happens after a faulty answer or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.exact.tables import OutOfBudget
from scheduler_core.topology.greedy import Greedy
from scheduler_core.topology.placer import GroupPlacement, Infeasible, can_place, place
from scheduler_core.topology.preemption import GroupPreemption, Victim, choose_victims
from scheduler_core.topology.question import Question
from scheduler_core.topology.solvers import EXACT, SOLVERS, Exact
from scheduler_core.topology.tree import build

TREE = build(("rack", "node"), (("r0", "n0"), ("r0", "n1"), ("r1", "n2"), ("r1", "n3")))
ROOM = np.array([3, 3, 3, 0])


class Says:
    """A solver with one answer, or one deed."""

    name = "says"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def solve(self, question: Question, expired: Callable[[], bool]) -> NDArray[np.int64] | None:
        return self.answer(question) if callable(self.answer) else self.answer  # type: ignore[no-any-return]


def asked(answer: Any, text: str = "", size: int = 4, held: Any = None) -> GroupPlacement | Infeasible:
    rules = parse_rules(TREE.levels, text)
    return place(TREE, ROOM, size, rules, fixed=held, solver=Says(answer))


def raises(question: Question) -> None:
    raise ValueError("no idea")


def writes(question: Question) -> None:
    question.free[0] = 9


RACK = '{"rack": {"type": "pack", "hard": true}}'
RANGE = '{"node": {"min": 2, "max": 3}}'


@pytest.mark.parametrize(
    ("answer", "text", "said"),
    [
        pytest.param([2, 2, 0], "", "no array of 4 whole numbers", id="another length"),
        pytest.param([2.0, 2.0, 0.0, 0.0], "", "no array of 4 whole numbers", id="fractions"),
        pytest.param([[2, 2, 0, 0]], "", "no array of 4 whole numbers", id="another shape"),
        pytest.param("nodes", "", "no array of 4 whole numbers", id="a text"),
        pytest.param([5, -1, 0, 0], "", "takes members away from node n1", id="below none"),
        pytest.param([0, 0, 3, 1], "", "1 members on node n3, which has room for 0", id="a full node"),
        pytest.param([3, 0, 0, 0], "", "places 3 members, 4 are missing", id="not all"),
        pytest.param([3, 2, 0, 0], "", "places 5 members, 4 are missing", id="too many"),
        pytest.param([2, 0, 2, 0], RACK, "uses 2 units of level rack below one parent", id="two racks"),
        pytest.param([2, 0, 2, 0], RACK, "below one parent, against rack.hard=pack", id="its rule"),
        pytest.param([3, 1, 0, 0], RANGE, "on node n1, against node.min=2 and node.max=3", id="range"),
        pytest.param(lambda question: [[1], [1, 2]], "", "solver says failed: ValueError", id="ragged"),
        pytest.param(raises, "", "solver says failed: ValueError('no idea')", id="an exception"),
        pytest.param(writes, "", "solver says failed: ValueError", id="writing into the question"),
        pytest.param(None, "", "solver says found no place for 4 members; there is one", id="nothing"),
    ],
)  # fmt: skip
def test_an_invalid_answer_is_no_placement_and_is_reported(answer: Any, text: str, said: str) -> None:
    found = asked(answer, text)
    assert isinstance(found, Infeasible)
    assert said in found.reason
    assert "says" in found.reason


class Unspeakable(Exception):
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(Unspeakable(), "solver says failed: Unspeakable", id="no words"),
        pytest.param(
            ValueError("y" * 10**6), f"solver says failed: ValueError('{'y' * 288}...", id="many words"
        ),
    ],
)
def test_an_exception_is_told_in_few_words_whatever_it_says_of_itself(error: Exception, said: str) -> None:
    def fails(question: Question) -> None:
        raise error

    found = asked(fails)
    assert isinstance(found, Infeasible)
    assert found.reason == said


def test_a_solver_made_from_the_exact_one_proves_nothing() -> None:
    class Mine(Exact):
        """Finds nothing, ever."""

        def solve(self, question: Question, expired: Callable[[], bool]) -> None:
            """None."""

    found = place(TREE, ROOM, 4, parse_rules(TREE.levels, ""), solver=Mine())
    assert isinstance(found, Infeasible)
    assert found.reason == "solver exact found no place for 4 members; there is one"


def test_a_lawful_answer_is_used_and_not_called_optimal() -> None:
    found = asked([1, 1, 2, 0], RANGE.replace("2", "1"))
    assert isinstance(found, GroupPlacement)
    assert (found.added.tolist(), found.values, found.optimal) == ([1, 1, 2, 0], (2, 3), False)


def test_members_that_stay_count_in_the_rules() -> None:
    held = np.array([1, 0, 0, 0])
    assert isinstance(asked([2, 0, 1, 0], RACK, held=held), Infeasible)
    found = asked([2, 1, 0, 0], RACK, held=held)
    assert isinstance(found, GroupPlacement)
    assert found.counts.tolist() == [3, 1, 0, 0]


def test_no_answer_to_what_cannot_be_is_explained_as_ever() -> None:
    found = asked(None, '{"rack": {"partitions": 3}}')
    assert isinstance(found, Infeasible)
    assert [str(term) for term in found.conflict] == ["rack.partitions=3"]


def test_a_solver_whose_time_is_over_leaves_some_lawful_placement() -> None:
    def over(question: Question) -> None:
        raise OutOfBudget

    found = asked(over, RACK)
    assert isinstance(found, GroupPlacement)
    assert not found.optimal


def test_a_machine_without_memory_is_nobodys_answer() -> None:
    def empty(question: Question) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        asked(empty)


def test_no_pod_is_evicted_if_the_solver_finds_no_placement_afterwards() -> None:
    full = np.zeros(4, dtype=np.int64)

    def without(chosen: frozenset[int]) -> NDArray[np.int64]:
        return ROOM if chosen else full

    rules = parse_rules(TREE.levels, "")
    args = (TREE, without, [Victim("low", 0, 1)], 4, rules)
    assert isinstance(choose_victims(*args, solver=Says(None)), Infeasible)
    found = choose_victims(*args, solver=Greedy())
    assert isinstance(found, GroupPreemption)
    assert found.victims == (0,)


def test_the_exact_solver_is_the_default() -> None:
    assert list(SOLVERS) == ["exact", "greedy"]
    rules = parse_rules(TREE.levels, "")
    found, same = place(TREE, ROOM, 4, rules), place(TREE, ROOM, 4, rules, solver=EXACT)
    assert isinstance(found, GroupPlacement)
    assert isinstance(same, GroupPlacement)
    assert (found.counts.tolist(), found.optimal) == (same.counts.tolist(), True)


def test_the_greedy_one_misses_a_range_with_a_crumb_that_the_exact_one_finds() -> None:
    tree = build(("node",), ((f"n{index}",) for index in range(3)))
    rules, room = parse_rules(tree.levels, '{"node": {"min": 3, "max": 4}}'), np.array([4, 4, 4])
    assert can_place(tree, room, 9, rules)
    found = place(tree, room, 9, rules, solver=Greedy())
    assert isinstance(found, Infeasible)
    assert found.reason == "solver greedy found no place for 9 members; there is one"


def test_the_greedy_one_knows_story_b() -> None:
    tree = build(("server", "node"), ((f"s{index // 3}", f"n{index}") for index in range(6)))
    rules = parse_rules(tree.levels, '{"server": {}, "node": {"type": "spread", "min": 2, "max": 4}}')
    found = place(tree, np.array([2, 2, 2, 9, 0, 0]), 6, rules, solver=Greedy())
    assert isinstance(found, GroupPlacement)
    assert found.counts.sum() == 6
