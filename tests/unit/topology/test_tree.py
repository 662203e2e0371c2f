"""The tree as arrays: order, indexes, and differences between a tree and a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.topology.tree import FLAT_LEVEL, HOSTNAME_LABEL, build, flat, from_labels

PATHS = [("rack-10", "node-3"), ("rack-2", "node-11"), ("rack-2", "node-2"), ("rack-10", "node-1")]


def test_units_stand_by_name_with_numbers_as_numbers() -> None:
    tree = build(("rack", "node"), PATHS)
    assert tree.units == (("rack-2", "rack-10"), ("node-2", "node-11", "node-1", "node-3"))
    assert tree.leaves == tree.units[1]
    assert [offsets.tolist() for offsets in tree.offsets] == [[0, 2], [0, 2, 4]]
    assert [parents.tolist() for parents in tree.parents] == [[0, 0], [0, 0, 1, 1]]
    assert [above.tolist() for above in tree.ancestors] == [[0, 0, 1, 1], [0, 1, 2, 3]]


def test_paths_and_totals() -> None:
    tree = build(("rack", "node"), PATHS)
    assert tree.path(1) == ("rack-2", "node-11")
    assert tree.totals(np.array([1, 2, 3, 4]), 0).tolist() == [3, 7]
    assert [sums.tolist() for sums in tree.sums(np.array([1, 2, 3, 4]))] == [[3, 7], [1, 2, 3, 4]]


def test_units_of_one_name_under_different_parents_are_different_units() -> None:
    tree = build(("zone", "rack", "node"), [("z0", "rack", "a"), ("z1", "rack", "b")])
    assert tree.units[1] == ("rack", "rack")
    assert tree.parents[1].tolist() == [0, 1]


def test_nodes_that_only_the_tree_or_only_the_cluster_has_are_reported() -> None:
    gap = build(("rack", "node"), PATHS).compare(["node-1", "node-20", "node-9", "node-3"])
    assert gap.not_in_tree == ("node-9", "node-20")
    assert gap.not_in_cluster == ("node-2", "node-11")


def test_no_topology_is_a_root_over_all_nodes() -> None:
    tree = flat(["b", "a"])
    assert (tree.levels, tree.leaves, tree.depth) == ((FLAT_LEVEL,), ("a", "b"), 1)
    assert tree.offsets[0].tolist() == [0, 2]


def test_arrays_cannot_be_changed() -> None:
    tree = flat(["a"])
    with pytest.raises(ValueError, match="read-only"):
        tree.parents[0][0] = 1
    with pytest.raises(ValueError, match="read-only"):
        tree.ancestors[0][0] = 1


@pytest.mark.parametrize(
    ("paths", "problem"),
    [([("rack-0",)], "has 1 units for 2 levels"), ([("r0", "a"), ("r1", "a")], "in two places")],
)
def test_paths_that_make_no_tree_are_refused(paths: list[tuple[str, ...]], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build(("rack", "node"), paths)


def test_a_tree_from_labels_leaves_out_nodes_without_them() -> None:
    labels = {
        "n2": {"zone": "z1", "rack": "r0"},
        "n1": {"zone": "z0", "rack": "r0"},
        "n3": {"zone": "z0"},
        "n4": {"zone": "z0", "rack": ""},
    }
    tree, missing = from_labels(labels, ["zone", "rack", HOSTNAME_LABEL])
    assert tree.levels == ("zone", "rack", HOSTNAME_LABEL)
    assert tree.units == (("z0", "z1"), ("r0", "r0"), ("n1", "n2"))
    assert missing == ("n3", "n4")


def test_a_tree_from_labels_ends_at_the_nodes_even_without_a_hostname_key() -> None:
    tree, missing = from_labels({"a": {"zone": "z"}, "b": {"zone": "z"}}, ["zone"])
    assert (tree.levels, tree.leaves, missing) == (("zone", FLAT_LEVEL), ("a", "b"), ())
