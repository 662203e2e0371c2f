"""Constraints that cannot hold on a tree: the smallest conflict and its reason."""

from __future__ import annotations

import pytest

from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.feasibility import check
from scheduler_core.topology.tree import build

TREE = build(("rack", "node"), [(f"rack-{node // 3}", f"node-{node}") for node in range(6)])

CONFLICTS = {
    "three parts over two racks": (
        8,
        '{"rack": {"partitions": 3}, "node": {"max": 4}}',
        ["rack.partitions=3"],
        "rack.partitions=3 exceeds the 2 units that a parent has at most",
    ),
    "a minimum over the maximum": (
        8,
        '{"node": {"min": 4, "max": 2, "factor": 2}}',
        ["node.min=4", "node.max=2"],
        "node.min=4 exceeds node.max=2",
    ),
    "a factor over the size": (
        3,
        '{"node": {"factor": 4}}',
        ["node.factor=4"],
        "node.factor=4 exceeds the size 3",
    ),
    "a factor that leaves a rest": (
        10,
        '{"node": {"factor": 4}}',
        ["node.factor=4"],
        "the size 10 is not a multiple of node.factor=4",
    ),
    "a minimum over the size": (2, '{"rack": {"min": 3}}', ["rack.min=3"], "rack.min=3 exceeds the size 2"),
    "a maximum below the factor": (
        8,
        '{"node": {"max": 3, "factor": 4}}',
        ["node.max=3", "node.factor=4"],
        "node.max=3 is below node.factor=4",
    ),
    "a maximum below the factor, which is the size": (
        4,
        '{"node": {"max": 3, "factor": 4}}',
        ["node.max=3", "node.factor=4"],
        "node.max=3 is below node.factor=4",
    ),
    "a range that leaves a rest": (
        5,
        '{"node": {"min": 3, "max": 4}}',
        ["node.min=3", "node.max=4"],
        "5 pods do not split into counts of 3 to 4 at level node",
    ),
    "one pod a node in two parts": (
        5,
        '{"node": {"type": "spread", "hard": true, "partitions": 2}}',
        ["node.hard=spread", "node.partitions=2"],
        "5 pods in 2 parts of 1 to 1 at level node do not add up",
    ),
    "a range without a multiple": (
        12,
        '{"node": {"min": 5, "max": 7, "factor": 4}}',
        ["node.min=5", "node.max=7", "node.factor=4"],
        "node allows no count: the smallest is 8, the largest 4",
    ),
    "multiples that leave a rest": (
        20,
        '{"node": {"min": 8, "max": 11, "factor": 4}}',
        ["node.min=8", "node.max=11", "node.factor=4"],
        "20 pods do not split into counts of 8 to 8 in multiples of 4 at level node",
    ),
    "too many small parts": (
        5,
        '{"node": {"min": 2, "partitions": 3}}',
        ["node.partitions=3", "node.min=2"],
        "5 pods in 3 parts of 2 to 5 at level node do not add up",
    ),
    "more parts than pods": (
        1,
        '{"rack": {"partitions": 2}}',
        ["rack.partitions=2"],
        "rack.partitions=2 exceeds the size 1",
    ),
    "one per node with too few nodes": (
        7,
        '{"node": {"type": "spread", "hard": true}}',
        ["node.hard=spread"],
        "node.hard=spread cannot hold for a group of 7 on 6 units of level node",
    ),
    "one per node with a minimum of two": (
        6,
        '{"node": {"type": "spread", "hard": true, "min": 2}}',
        ["node.hard=spread", "node.min=2"],
        "node.hard=spread allows one pod on a node, at least 2 are asked for",
    ),
    "one rack in two parts": (
        4,
        '{"rack": {"hard": true, "partitions": 2}}',
        ["rack.hard=pack", "rack.partitions=2"],
        "rack.hard=pack puts all pods on one rack, rack.partitions=2 asks for several",
    ),
    "a maximum with too few nodes": (
        13,
        '{"node": {"max": 2}, "rack": {"min": 1}}',
        ["node.max=2"],
        "node.max=2 cannot hold for a group of 13 on 6 units of level node",
    ),
    "levels that do not compose": (
        5,
        '{"rack": {"partitions": 2}, "node": {"min": 3}}',
        ["rack.partitions=2", "node.min=3"],
        "rack.partitions=2 and node.min=3 cannot hold together for a group of 5",
    ),
}


@pytest.mark.parametrize(("size", "text", "terms", "reason"), CONFLICTS.values(), ids=CONFLICTS)
def test_the_smallest_conflict_is_named(size: int, text: str, terms: list[str], reason: str) -> None:
    (conflict,) = check(TREE, parse_rules(TREE.levels, text), size)
    assert [str(term) for term in conflict.terms] == terms
    assert conflict.text == reason


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (8, ""),
        (8, '{"rack": {"type": "spread", "partitions": 2}, "node": {"factor": 4}}'),
        (6, '{"rack": {"hard": true}, "node": {"min": 2, "max": 4}}'),
        (10_000, '{"rack": {"type": "spread"}, "node": {"factor": 10}}'),
    ],
)
def test_demands_that_can_hold_have_no_conflict(size: int, text: str) -> None:
    assert check(TREE, parse_rules(TREE.levels, text), size) == ()


def test_a_tree_without_nodes_is_no_reason_to_refuse_a_group() -> None:
    empty = build(("rack", "node"), [])
    assert check(empty, parse_rules(empty.levels, '{"rack": {"partitions": 2}}'), 4) == ()
