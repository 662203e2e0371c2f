"""The exact solver alone: which of several stems is taken, and what it says where nothing can be."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.exact.solver import longest_stem, solve
from scheduler_core.topology.exact.tables import OutOfBudget
from scheduler_core.topology.placer import never
from scheduler_core.topology.problem import Problem, pose
from scheduler_core.topology.tree import build

# Zones y and z; racks a and b in y, c and d in z; two nodes each.
TREE = build(
    ("zone", "rack", "node"), [("yz"[i // 4], "abcd"[i // 2], f"{'abcd'[i // 2]}{i % 2}") for i in range(8)]
)


def posed(text: str, free: list[int], size: int, held: list[int] | None = None) -> Problem:
    fixed = None if held is None else np.array(held)
    return pose(TREE, np.array(free), size, parse_rules(TREE.levels, text), fixed)


RACK_SPREAD = '{"rack": {"type": "spread"}}'
RACK_PACK = '{"zone": {"type": "spread"}}'
TWO_RACKS = '{"zone": {"hard": true}, "rack": {"partitions": 2}}'
HARD = '{"zone": {"hard": true}, "rack": {"hard": true}}'
ONE_NODE = '{"zone": {"hard": true}, "rack": {"hard": true}, "node": {"hard": true}}'
SPREAD_NODES = '{"node": {"type": "spread"}}'

# name, rules, free slots, members, members by node; None where nothing can be
BEST: list[tuple[str, str, list[int], int, list[int] | None]] = [
    ("the first of equal racks", "", [2, 2, 2, 2, 2, 2, 2, 2], 2, [2, 0, 0, 0, 0, 0, 0, 0]),
    ("the tightest zone", "", [4, 0, 4, 1, 4, 0, 4, 0], 8, [0, 0, 0, 0, 4, 0, 4, 0]),
    ("the tightest rack of any zone", "", [9, 0, 9, 0, 9, 0, 7, 0], 6, [0, 0, 0, 0, 0, 0, 6, 0]),
    ("fewer nodes before a tighter rack", "", [3, 3, 9, 0, 2, 2, 2, 2], 5, [0, 0, 5, 0, 0, 0, 0, 0]),
    ("even racks of the tightest zone", RACK_SPREAD, [3, 3, 3, 3, 2, 2, 2, 2], 4, [0, 0, 0, 0, 2, 0, 2, 0]),
    ("the zone of the most even racks", RACK_SPREAD, [4, 4, 1, 0, 2, 2, 2, 2], 5, [0, 0, 0, 0, 2, 1, 2, 0]),
    ("even zones", RACK_PACK, [4, 4, 4, 4, 4, 4, 4, 4], 4, [2, 0, 0, 0, 2, 0, 0, 0]),
    ("two racks of one zone", TWO_RACKS, [6, 6, 0, 0, 2, 2, 3, 3], 5, [0, 0, 0, 0, 2, 0, 3, 0]),
    ("two racks of no zone", TWO_RACKS, [6, 6, 0, 0, 0, 0, 3, 3], 5, None),
    ("one rack, the most together", HARD, [3, 1, 2, 2, 5, 4, 3, 3], 6, [0, 0, 0, 0, 5, 1, 0, 0]),
    ("one rack for more than there is", HARD, [3, 1, 2, 2, 5, 4, 3, 3], 10, None),
    ("one node, the tightest", ONE_NODE, [3, 1, 2, 2, 5, 4, 3, 3], 4, [0, 0, 0, 0, 0, 4, 0, 0]),
    ("even nodes", SPREAD_NODES, [3, 3, 3, 3, 2, 2, 2, 2], 4, [0, 0, 0, 0, 2, 2, 0, 0]),
    ("nodes of three at least", '{"node": {"min": 3}}', [2, 2, 2, 2, 3, 0, 4, 0], 6, [0] * 4 + [3, 0, 3, 0]),
    ("nobody", "", [1, 0, 0, 0, 0, 0, 0, 0], 0, [0] * 8),
    ("more than there is room for", "", [1, 0, 0, 0, 0, 0, 0, 0], 2, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "free", "size", "counts"), [case[1:] for case in BEST], ids=[case[0] for case in BEST]
)
def test_the_best_placement(text: str, free: list[int], size: int, counts: list[int] | None) -> None:
    found = solve(posed(text, free, size), never)
    assert (None if found is None else found.tolist()) == counts


def test_members_that_stay_have_the_others_beside_them() -> None:
    held = [0, 0, 0, 0, 0, 1, 0, 0]
    found = solve(posed("", [9, 9, 9, 9, 1, 1, 1, 1], 4, held), never)
    assert found is not None
    assert found.tolist() == [0, 0, 0, 0, 1, 1, 1, 0]
    assert solve(posed(HARD, [9, 9, 9, 9, 1, 1, 1, 1], 4, held), never) is None


def test_the_stem_follows_units_with_room_for_all() -> None:
    def stem(text: str, free: list[int], size: int) -> tuple[int, list[int], bool]:
        found = longest_stem(posed(text, free, size))
        return found.level, found.parents.tolist(), found.forced

    free = [3, 1, 2, 2, 5, 4, 3, 3]
    assert stem("", free, 5) == (3, [4], False)
    assert stem("", free, 6) == (2, [2, 3], False)
    assert stem("", free, 9) == (2, [2], False)
    assert stem("", free, 10) == (1, [1], False)
    assert stem("", free, 16) == (0, [0], True)
    assert stem(HARD, free, 6) == (2, [2, 3], True)
    assert stem('{"zone": {"hard": true}}', free, 15) == (1, [1], True)
    assert stem('{"zone": {"hard": true}}', free, 16) == (0, [0], True)
    assert stem(RACK_SPREAD, free, 5) == (1, [0, 1], False)
    assert stem(TWO_RACKS, free, 5) == (1, [0, 1], True)
    assert stem('{"zone": {"max": 4}}', free, 5) == (0, [0], True)


def test_a_solver_without_time_says_so() -> None:
    with pytest.raises(OutOfBudget):
        solve(posed(RACK_PACK, [4] * 8, 6), lambda: True)
