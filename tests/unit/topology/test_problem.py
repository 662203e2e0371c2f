"""What the strict rules leave of the room, per level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.objective import MOST_SLOTS as ALL
from scheduler_core.topology.problem import Problem, pose
from scheduler_core.topology.tree import build

TREE = build(("rack", "node"), (("r0", "n0"), ("r0", "n1"), ("r1", "n2"), ("r1", "n3"), ("r1", "n4")))


def posed(text: str, slots: Sequence[int], held: Sequence[int] | None = None, size: int = 9) -> Problem:
    fixed = None if held is None else np.array(held)
    return pose(TREE, np.array(slots), size, parse_rules(TREE.levels, text), fixed)


# name, rules, slots by node, what racks and nodes may take at most, and all of them
LIMITS: list[tuple[str, str, list[int], list[int], list[int], int]] = [
    ("no rule", "", [3, 1, 4, 0, 2], [4, 6], [3, 1, 4, 0, 2], 10),
    ("less than no room", "", [-3, 1, 4, 0, 2], [1, 6], [0, 1, 4, 0, 2], 7),
    ("more than counts", "", [ALL + 1, 1, 4, 0, 2], [ALL + 1, 6], [ALL, 1, 4, 0, 2], ALL + 7),
    ("a maximum", '{"node": {"max": 2}}', [3, 1, 4, 0, 2], [3, 4], [2, 1, 2, 0, 2], 7),
    ("a minimum", '{"node": {"min": 2}}', [3, 1, 4, 0, 2], [3, 6], [3, 0, 4, 0, 2], 9),
    ("a factor", '{"node": {"factor": 2}}', [3, 1, 4, 0, 2], [2, 6], [2, 0, 4, 0, 2], 8),
    ("one node of a rack", '{"node": {"hard": true}}', [3, 1, 4, 0, 2], [3, 4], [3, 1, 4, 0, 2], 7),
    ("two nodes of a rack", '{"node": {"partitions": 2}}', [3, 1, 4, 1, 2], [4, 6], [3, 1, 4, 1, 2], 10),
    ("three nodes of a rack", '{"node": {"partitions": 3}}', [3, 1, 4, 1, 2], [0, 7], [3, 1, 4, 1, 2], 7),
    ("three nodes, one full", '{"node": {"partitions": 3}}', [3, 1, 4, 0, 2], [0, 0], [3, 1, 4, 0, 2], 0),
    ("one rack", '{"rack": {"hard": true}}', [3, 1, 4, 0, 2], [4, 6], [3, 1, 4, 0, 2], 6),
    ("three racks", '{"rack": {"partitions": 3}}', [3, 1, 4, 0, 2], [4, 6], [3, 1, 4, 0, 2], 0),
    ("both", '{"rack": {"max": 5}, "node": {"max": 3}}', [3, 1, 4, 0, 2], [4, 5], [3, 1, 3, 0, 2], 9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "slots", "racks", "nodes", "most"),
    [case[1:] for case in LIMITS],
    ids=[case[0] for case in LIMITS],
)
def test_the_most_that_units_may_take(
    text: str, slots: list[int], racks: list[int], nodes: list[int], most: int
) -> None:
    problem = posed(text, slots)
    assert [limits.tolist() for limits in problem.limits] == [racks, nodes]
    assert problem.most == most
    assert problem.free[0].tolist() == [sum(problem.free[1][:2]), sum(problem.free[1][2:])]
    assert problem.missing == 9


def test_beside_members_that_stay_only_the_room_limits() -> None:
    problem = posed('{"node": {"hard": true, "max": 2}}', [3, 1, 4, 0, 2], held=[0, 0, 1, 0, 0])
    assert [limits.tolist() for limits in problem.limits] == [[4, 6], [3, 1, 4, 0, 2]]
    assert (problem.most, problem.missing) == (10, 8)
    assert [held.tolist() for held in problem.held] == [[0, 1], [0, 0, 1, 0, 0]]


def test_what_racks_may_take_limits_their_zones() -> None:
    tree = build(("zone", "rack", "node"), (("z0", "r0", "a"), ("z0", "r1", "b"), ("z1", "r2", "c")))
    rules = parse_rules(tree.levels, '{"rack": {"max": 2}, "node": {"factor": 3}}')
    problem = pose(tree, np.array([7, 8, 9]), 9, rules, None)
    assert [limits.tolist() for limits in problem.limits] == [[4, 2], [2, 2, 2], [6, 6, 9]]
    rules = parse_rules(tree.levels, '{"zone": {"max": 8}, "rack": {"hard": true}, "node": {"factor": 3}}')
    problem = pose(tree, np.array([7, 8, 9]), 9, rules, None)
    assert [limits.tolist() for limits in problem.limits] == [[6, 8], [6, 6, 9], [6, 6, 9]]
    assert problem.most == 14


def test_a_rule_without_children_leaves_nothing() -> None:
    empty = build(("rack", "node"), [])
    for text in ("", '{"node": {"max": 2}}'):
        problem = pose(empty, np.zeros(0, dtype=np.int64), 2, parse_rules(empty.levels, text), None)
        assert (problem.most, problem.missing) == (0, 2)
