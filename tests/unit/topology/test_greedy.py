"""One way down the tree: which unit is filled first, with what share, and what this way misses."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.greedy import Greedy
from scheduler_core.topology.placer import never
from scheduler_core.topology.question import Question
from scheduler_core.topology.tree import build

# Racks a, b and c of three nodes each.
TREE = build(("rack", "node"), tuple((rack, f"{rack}{place}") for rack in "abc" for place in "123"))
MIXED = [2, 1, 1, 3, 3, 0, 1, 1, 1]
UNEQUAL = [3, 3, 3, 1, 0, 0, 2, 2, 0]
EQUAL, WIDE, NOBODY = [2] * 9, [3] * 9, [0] * 9
ON_B2 = [0, 0, 0, 0, 1, 0, 0, 0, 0]
ON_C2 = [0, 0, 0, 0, 0, 0, 0, 1, 0]
ON_BOTH = [1, 0, 0, 0, 0, 0, 0, 1, 0]
TWO_AND_ONE = [2, 0, 0, 0, 0, 0, 0, 1, 0]

SPREAD = '{"rack": {"type": "spread"}}'
SPREAD_TWICE = '{"rack": {"type": "spread"}, "node": {"type": "spread"}}'
SPREAD_OF_TWO = '{"rack": {"type": "spread", "partitions": 2}}'
HARD = '{"rack": {"type": "pack", "hard": true}}'

# name, free slots, size, rules, members there, what is added; None where this way does not place all
WAYS: list[tuple[str, list[int], int, str, list[int], list[int] | None]] = [
    ("the rack with the most room", MIXED, 5, "", NOBODY, [0, 0, 0, 3, 2, 0, 0, 0, 0]),
    ("what does not fit goes to the next", MIXED, 8, "", NOBODY, [2, 0, 0, 3, 3, 0, 0, 0, 0]),
    ("all the room there is", MIXED, 13, "", NOBODY, MIXED),
    ("more than that", MIXED, 14, "", NOBODY, None),
    (
        "less than nothing is no room",
        [2, 1, 1, -3, 6, 0, 1, 1, 1],
        6,
        "",
        NOBODY,
        [0, 0, 0, 0, 6, 0, 0, 0, 0],
    ),
    ("nobody", MIXED, 0, "", NOBODY, [0] * 9),
    ("one each", EQUAL, 3, SPREAD_TWICE, NOBODY, [1, 0, 0, 1, 0, 0, 1, 0, 0]),
    ("shares are rounded up", EQUAL, 7, SPREAD_TWICE, NOBODY, [1, 1, 1, 1, 1, 0, 1, 1, 0]),
    ("the smallest rack first", UNEQUAL, 7, SPREAD, NOBODY, [3, 0, 0, 1, 0, 0, 2, 1, 0]),
    ("nodes alone", UNEQUAL, 4, '{"node": {"type": "spread"}}', NOBODY, [2, 1, 1, 0, 0, 0, 0, 0, 0]),
    (
        "one is left for each other part",
        UNEQUAL,
        6,
        '{"rack": {"partitions": 2}}',
        NOBODY,
        [3, 2, 0, 0, 0, 0, 1, 0, 0],
    ),
    ("three parts", UNEQUAL, 6, '{"rack": {"partitions": 3}}', NOBODY, [3, 1, 0, 1, 0, 0, 1, 0, 0]),
    ("two even parts, the smallest of which is too small", UNEQUAL, 6, SPREAD_OF_TWO, NOBODY, None),
    ("one rack", UNEQUAL, 6, HARD, NOBODY, [3, 3, 0, 0, 0, 0, 0, 0, 0]),
    ("more than one rack takes", UNEQUAL, 10, HARD, NOBODY, None),
    ("a minimum that is met", UNEQUAL, 6, '{"node": {"min": 2}}', NOBODY, [3, 3, 0, 0, 0, 0, 0, 0, 0]),
    ("a minimum that the last one misses", UNEQUAL, 7, '{"node": {"min": 2}}', NOBODY, None),
    ("a maximum", WIDE, 6, '{"node": {"max": 2}}', NOBODY, [2, 2, 2, 0, 0, 0, 0, 0, 0]),
    ("a factor", WIDE, 6, '{"node": {"factor": 2}}', NOBODY, [2, 2, 2, 0, 0, 0, 0, 0, 0]),
    (
        "one a node",
        WIDE,
        3,
        '{"node": {"type": "spread", "hard": true}}',
        NOBODY,
        [1, 1, 1, 0, 0, 0, 0, 0, 0],
    ),
    (
        "shares below the minimum are raised",
        WIDE,
        6,
        '{"rack": {"type": "spread", "min": 3}}',
        NOBODY,
        [3, 0, 0, 3, 0, 0, 0, 0, 0],
    ),
    (
        "the minimum is left for the other part",
        WIDE,
        7,
        '{"rack": {"partitions": 2, "min": 3}}',
        NOBODY,
        [3, 1, 0, 3, 0, 0, 0, 0, 0],
    ),
    ("where members are, first", EQUAL, 5, "", ON_C2, [0, 0, 0, 0, 0, 0, 2, 2, 0]),
    ("even shares, members first", EQUAL, 6, SPREAD, ON_B2, [2, 0, 0, 0, 2, 0, 1, 0, 0]),
    (
        "a rack with members is a part",
        EQUAL,
        5,
        '{"rack": {"partitions": 2}}',
        ON_C2,
        [1, 0, 0, 0, 0, 0, 1, 2, 0],
    ),
    ("and has an even share", EQUAL, 5, SPREAD_OF_TWO, ON_C2, [2, 0, 0, 0, 0, 0, 0, 2, 0]),
    (
        "members are raised to the minimum, and no further",
        WIDE,
        10,
        '{"rack": {"type": "spread", "min": 5}}',
        ON_C2,
        [3, 2, 0, 0, 0, 0, 1, 3, 0],
    ),
    ("members that stay too few", EQUAL, 6, '{"node": {"min": 2}}', ON_BOTH, None),
    (
        "members that become enough",
        [1, 2, 2, 2, 2, 2, 2, 2, 2],
        6,
        '{"node": {"min": 3}}',
        TWO_AND_ONE,
        [1, 0, 0, 0, 0, 0, 0, 2, 0],
    ),
]


@pytest.mark.parametrize(
    ("free", "size", "rules", "held", "added"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS]
)
def test_one_way_down(
    free: list[int], size: int, rules: str, held: list[int], added: list[int] | None
) -> None:
    question = Question(TREE, parse_rules(TREE.levels, rules), size, np.array(free), np.array(held))
    found = Greedy().solve(question, never)
    assert (None if found is None else found.tolist()) == added
