"""Computes ranks by distance from the master, and the hop cost of a placement.

A distance is the number of edges between two pods in the tree, pods hanging below their node: 2 on the same
node, 4 under the same parent of nodes, 6 one level further up, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.placer import GroupPlacement, never, place
from scheduler_core.topology.tree import Tree

MASTER_MARK = "master"


@dataclass(frozen=True)
class Member:
    """A placed pod: its name and its leaf in the tree."""

    pod: str
    leaf: int


def distance(tree: Tree, first: int, second: int) -> int:
    """Edges between two different pods on the leaves `first` and `second`."""
    apart = sum(int(units[first] != units[second]) for units in tree.ancestors)
    return 2 * (apart + 1)


def order_members(tree: Tree, members: Sequence[Member]) -> list[Member]:
    """Members by distance from the master, rank 0; `members` is in pod index order.

    The master is the first pod with "master" in its name, otherwise the first pod. Ties go by tree order,
    then by pod index.
    """
    if not members:
        return []
    master = next((index for index, member in enumerate(members) if MASTER_MARK in member.pod), 0)
    home = members[master].leaf

    def key(index: int) -> tuple[int, int, int]:
        leaf = members[index].leaf
        return (0 if index == master else distance(tree, home, leaf), leaf, index)

    return [members[index] for index in sorted(range(len(members)), key=key)]


def hop_cost(tree: Tree, counts: NDArray[np.int64]) -> int:
    """The sum of distances over all pairs of members; counts is int64 [leaves]."""
    size = int(counts.sum())
    pairs = size * (size - 1) // 2
    apart = 0  # pairs that a level separates, over all levels
    for level in range(tree.depth):
        totals = tree.totals(counts, level)
        apart += (size * size - int((totals * totals).sum())) // 2
    return 2 * (pairs + apart)


def best_hop_cost(
    tree: Tree, empty: NDArray[np.int64], size: int, rules: Rules, expired: Callable[[], bool] = never
) -> int | None:
    """Hop cost of the best placement on the empty cluster: `empty` int64 [leaves] members per idle node.

    None when the group does not fit even there, or the search had expired before it was proven the best.
    """
    found = place(tree, empty, size, rules, expired=expired)
    return hop_cost(tree, found.counts) if isinstance(found, GroupPlacement) and found.optimal else None
