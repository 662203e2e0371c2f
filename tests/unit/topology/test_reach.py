"""Bit sets of possible counts: sums, progressions, and what they tell of small trees."""

from __future__ import annotations

import random
from itertools import product as pairs

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.topology.constraints import LevelRule, Rules, parse_rules
from scheduler_core.topology.problem import pose
from scheduler_core.topology.reach import any_placement, is_feasible, most_feasible, progression, sumset
from scheduler_core.topology.tree import build
from tests.support.every import every_seed

# Few numbers, or long runs of them.
MEMBERS = st.sets(st.integers(0, 40), max_size=8) | st.tuples(
    st.integers(0, 9), st.integers(0, 12), st.sets(st.integers(0, 40), max_size=3)
).map(lambda drawn: {*range(drawn[0], drawn[0] + drawn[1]), *drawn[2]})


def bits(members: set[int]) -> int:
    return sum(1 << member for member in members)


@given(MEMBERS, MEMBERS)
def test_a_sumset_holds_every_sum_of_two_members_and_nothing_else(left: set[int], right: set[int]) -> None:
    assert sumset(bits(left), bits(right)) == bits({one + other for one in left for other in right})


@given(st.integers(0, 30), st.integers(0, 60), st.integers(1, 7))
def test_a_progression_is_a_range_with_a_step(lowest: int, highest: int, step: int) -> None:
    assert progression(lowest, highest, step) == bits(set(range(lowest, highest + 1, step)))


def test_all_small_sets_and_ranges() -> None:
    for left, right in pairs(range(32), range(32)):
        sums = {
            one + other for one in range(5) if left >> one & 1 for other in range(5) if right >> other & 1
        }
        assert sumset(left, right) == bits(sums), (left, right)
    for lowest, highest, step in pairs(range(5), range(12), range(1, 5)):
        assert progression(lowest, highest, step) == bits(set(range(lowest, highest + 1, step)))


TREE = build(("rack", "node"), (("r0", "n0"), ("r0", "n1"), ("r1", "n2"), ("r1", "n3")))


def lawful(rules: Rules, counts: tuple[int, ...], size: int) -> bool:
    """Whether racks and nodes with these members meet the strict rules."""
    per_level = [(counts[0] + counts[1], counts[2] + counts[3]), counts]
    families = [[per_level[0]], [counts[:2], counts[2:]]]
    for rule, units, siblings in zip(rules, per_level, families, strict=True):
        if not all(rule.allows(count, size) for count in units):
            return False
        used = [sum(map(bool, family)) for family in siblings]
        if rule.exact is not None and any(number not in (0, rule.exact) for number in used):
            return False
    return True


def drawn(rng: random.Random, level: str) -> LevelRule:
    def maybe(most: int) -> int | None:
        return rng.randint(1, most) if rng.random() < 0.3 else None

    spread, hard = rng.random() < 0.5, rng.random() < 0.15
    return LevelRule(level, spread, hard, maybe(3), maybe(2), maybe(5), maybe(2))


@every_seed(range(40))
def test_reached_is_what_some_way_of_placing_them_meets(seed: int) -> None:
    """All ways to place one to six members on four nodes are tried, beside members that stay."""
    rng = random.Random(seed)
    rules = (drawn(rng, "rack"), drawn(rng, "node"))
    free = [rng.randint(0, 3) for _ in TREE.leaves]
    held = [rng.choice((0, 0, 1, 2)) for _ in TREE.leaves] if seed % 3 == 0 else [0] * 4
    size = sum(held) + rng.randint(0, 6)
    problem = pose(TREE, np.array(free), size, rules, np.array(held))
    ways = [
        added
        for added in pairs(*(range(room + 1) for room in free))
        if lawful(rules, tuple(map(sum, zip(held, added, strict=True))), size)
    ]
    found = any_placement(problem)
    assert is_feasible(problem) is (found is not None) is any(sum(way) == problem.missing for way in ways)
    assert found is None or tuple(found.tolist()) in {way for way in ways if sum(way) == problem.missing}
    assert most_feasible(problem) == max((sum(way) for way in ways if sum(way) <= problem.missing), default=0)


# name, free slots, members, rules, members by node
PLACED: list[tuple[str, list[int], int, str, list[int]]] = [
    ("the roomiest rack and node first", [1, 2, 3, 4], 5, "", [0, 0, 1, 4]),
    ("racks alike", [3, 3, 3, 3], 6, '{"rack": {"type": "spread"}}', [3, 0, 3, 0]),
    ("nodes alike", [3, 3, 0, 0], 4, '{"node": {"type": "spread"}}', [2, 2, 0, 0]),
    ("a full one leaves its share", [1, 3, 0, 0], 4, '{"node": {"type": "spread"}}', [1, 3, 0, 0]),
    ("as many nodes as are asked for", [3, 3, 0, 0], 3, '{"node": {"partitions": 2}}', [2, 1, 0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("free", "size", "text", "counts"), [case[1:] for case in PLACED], ids=[case[0] for case in PLACED]
)
def test_where_members_go_without_an_objective(
    free: list[int], size: int, text: str, counts: list[int]
) -> None:
    found = any_placement(pose(TREE, np.array(free), size, parse_rules(TREE.levels, text), None))
    assert found is not None
    assert found.tolist() == counts
