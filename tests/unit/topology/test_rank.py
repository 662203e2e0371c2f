"""Ranks, distances and hop costs, with the numbers of docs/topology.md."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.rank import Member, best_hop_cost, distance, hop_cost, order_members
from scheduler_core.topology.report import drawn_placement, drawn_ranks, placement_text, rank_text
from scheduler_core.topology.tree import Tree, build, flat

RACKS = build(("rack", "node"), [(f"rack-{node // 3}", f"node-{node}") for node in range(9)])


def members(tree: Tree, counts: dict[str, int], names: list[str] | None = None) -> list[Member]:
    leaves = [tree.leaf_index[node] for node, count in counts.items() for _ in range(count)]
    return [Member(names[i] if names else f"pod-{i}", leaf) for i, leaf in enumerate(leaves)]


@pytest.mark.parametrize(
    ("tree", "first", "second", "edges"),
    [
        (RACKS, 0, 0, 2),
        (RACKS, 0, 2, 4),
        (RACKS, 0, 3, 6),
        (flat(["a", "b"]), 0, 1, 4),
        (flat(["a", "b"]), 1, 1, 2),
        (build(("zone", "rack", "node"), [("z0", "r0", "a"), ("z1", "r1", "b")]), 0, 1, 8),
    ],
)
def test_distance_counts_the_edges_between_two_pods(tree: Tree, first: int, second: int, edges: int) -> None:
    assert distance(tree, first, second) == edges


SEQUENCES = {
    "idle, master on a node of three": ({"node-0": 3, "node-1": 3, "node-2": 2}, [0, 2, 2, 4, 4, 4, 4, 4]),
    "five and three": ({"node-0": 5, "node-1": 3}, [0, 2, 2, 2, 2, 4, 4, 4]),
    "two racks": ({"node-0": 3, "node-2": 3, "node-3": 1, "node-5": 1}, [0, 2, 2, 4, 4, 4, 6, 6]),
    "two racks, master on the far side": (
        {"node-3": 1, "node-5": 1, "node-0": 3, "node-2": 3},
        [0, 4, 6, 6, 6, 6, 6, 6],
    ),
    "user A": ({"node-8": 3, "node-7": 1, "node-0": 4}, [0, 2, 2, 4, 6, 6, 6, 6]),
    "user B": ({"node-3": 2, "node-4": 2, "node-5": 2}, [0, 2, 4, 4, 4, 4]),
}


@pytest.mark.parametrize(("counts", "distances"), SEQUENCES.values(), ids=SEQUENCES)
def test_ranks_go_by_distance_from_the_first_pod(counts: dict[str, int], distances: list[int]) -> None:
    ranked = order_members(RACKS, members(RACKS, counts))
    assert ranked[0].pod == "pod-0"
    assert [0, *(distance(RACKS, ranked[0].leaf, member.leaf) for member in ranked[1:])] == distances


def test_a_pod_with_master_in_its_name_is_rank_0() -> None:
    placed = members(RACKS, {"node-0": 1, "node-4": 2}, ["worker-0", "worker-1", "job-master-0"])
    assert [member.pod for member in order_members(RACKS, placed)] == ["job-master-0", "worker-1", "worker-0"]


def test_ties_go_by_tree_order_and_then_by_pod_index() -> None:
    placed = [Member("p0", 0), Member("p1", 5), Member("p2", 4), Member("p3", 4), Member("p4", 0)]
    assert [member.pod for member in order_members(RACKS, placed)] == ["p0", "p4", "p2", "p3", "p1"]


def test_no_members_have_no_ranks() -> None:
    assert order_members(RACKS, []) == []


def test_hop_cost_is_the_sum_of_distances_over_pairs() -> None:
    placed = members(RACKS, {"node-0": 3, "node-2": 1, "node-7": 2})
    counts = np.zeros(9, dtype=np.int64)
    for member in placed:
        counts[member.leaf] += 1
    pairs = combinations((member.leaf for member in placed), 2)
    assert hop_cost(RACKS, counts) == sum(distance(RACKS, one, other) for one, other in pairs)


def test_the_best_hop_cost_is_that_of_the_best_placement_on_the_empty_cluster() -> None:
    rules = parse_rules(RACKS.levels, '{"node": {"type": "spread"}}')
    empty = np.full(9, 4)
    assert best_hop_cost(RACKS, empty, 3, rules) == 3 * 4
    assert best_hop_cost(RACKS, empty, 40, rules) is None


def test_the_texts_on_the_group() -> None:
    placed = members(RACKS, {"node-3": 1, "node-0": 2})
    assert placement_text(RACKS, placed) == (
        '{"root": {"rack-0": {"node-0": {"pod-1": {}, "pod-2": {}}}, "rack-1": {"node-3": {"pod-0": {}}}}}'
    )
    ranked = order_members(RACKS, placed)
    assert (
        rank_text((member.pod, rank) for rank, member in enumerate(ranked))
        == "[(pod-0,0) (pod-1,1) (pod-2,2)]"
    )


def test_the_seed_format_draws_placement_and_ranks() -> None:
    """The form of docs/topology.md#ranks-and-results, for the sample of the proposal (one node renamed)."""
    tree = build(
        ("rack", "node"),
        (("rack-0", "node-0"), ("rack-0", "node-2"), ("rack-1", "node-3"), ("rack-1", "node-4")),
    )
    ranked = ((0, 0), (4, 0), (6, 0), (1, 1), (3, 1), (7, 1), (2, 2), (5, 3))
    members = [Member(f"pod-{pod}", leaf) for pod, leaf in ranked]
    drawn = """
        {"root":
        {"rack-0":
        {"node-0": {"pod-0", "pod-4", "pod-6"}},
        {"node-2": {"pod-1", "pod-3", "pod-7"}}
        },
        {"rack-1":
        {"node-3": {"pod-2"}},
        {"node-4": {"pod-5"}}
        }
        }"""
    assert drawn_placement(tree, members).replace(" ", "") == "".join(drawn.split())
    assert drawn_ranks((member.pod, rank) for rank, member in enumerate(members)) == (
        '[("pod-0",0) ("pod-4",1) ("pod-6",2) ("pod-1",3) ("pod-3",4) ("pod-7",5) ("pod-2",6) ("pod-5",7) ]'
    )


def test_the_best_cost_is_not_known_where_time_is_over() -> None:
    rules = parse_rules(RACKS.levels, '{"rack": {"partitions": 2}}')
    room = np.full(9, 4)
    assert best_hop_cost(RACKS, room, 8, rules) is not None
    assert best_hop_cost(RACKS, room, 8, rules, lambda: True) is None
