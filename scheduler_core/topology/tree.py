"""The topology tree as arrays: levels from top to bottom, units per level, nodes as leaves.

Units of a level stand in depth-first order and siblings by name (numbers in
names count as numbers), so the children of a unit are neighbours, and tree order equals name order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FLAT_LEVEL = "node"
HOSTNAME_LABEL = "kubernetes.io/hostname"

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class NodeGap:
    """The nodes that only the tree or only the cluster has, by name."""

    not_in_tree: tuple[str, ...]
    not_in_cluster: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Tree:
    """An immutable tree. Level index 0 is the highest below the root, the last level is the nodes.

    units[l]: names of the units of level l. parents[l]: int64 [units of l], index into level l - 1 (0, the
    root, at level 0). offsets[l]: int64 [units of l - 1, plus 1]; the children of unit u of level l - 1 are
    offsets[l][u] .. offsets[l][u + 1] - 1 at level l. ancestors[l]: int64 [leaves], the unit above each leaf.
    """

    levels: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]
    parents: tuple[NDArray[np.int64], ...]
    offsets: tuple[NDArray[np.int64], ...]
    ancestors: tuple[NDArray[np.int64], ...]
    leaf_index: Mapping[str, int] = field(repr=False)

    @property
    def leaves(self) -> tuple[str, ...]:
        """Node names in tree order."""
        return self.units[-1]

    @property
    def depth(self) -> int:
        """Number of levels, the root not counted."""
        return len(self.levels)

    def path(self, leaf: int) -> tuple[str, ...]:
        """Unit names from the top to the given leaf."""
        return tuple(self.units[level][self.ancestors[level][leaf]] for level in range(self.depth))

    def totals(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Sum an int64 [leaves] array to int64 [units of the level]."""
        sums = np.zeros(len(self.units[level]), dtype=np.int64)  # [units]
        np.add.at(sums, self.ancestors[level], values)
        return sums

    def sums(self, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Sum an int64 [leaves] array on every level: one int64 [units] array per level, top first."""
        sums = [values]
        for offsets in reversed(self.offsets[1:]):
            sums.append(np.add.reduceat(sums[-1], offsets[:-1]) if len(sums[-1]) else sums[-1])
        return tuple(reversed(sums))

    def compare(self, cluster_nodes: Iterable[str]) -> NodeGap:
        """The nodes of the cluster that the tree lacks, and the leaves that the cluster lacks."""
        present = set(cluster_nodes)
        missing = (name for name in present if name not in self.leaf_index)
        absent = tuple(name for name in self.leaves if name not in present)
        return NodeGap(tuple(sorted(missing, key=name_key)), absent)


@lru_cache(maxsize=1 << 15)
def name_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts node-2 before node-10."""
    parts = _DIGITS.split(name)
    return tuple((0, int(part), part) if index % 2 else (1, 0, part) for index, part in enumerate(parts))


def build(levels: Sequence[str], paths: Iterable[Sequence[str]]) -> Tree:
    """A tree from one path per node (a unit name for each level). Raises ValueError on a wrong length."""
    ordered = sorted({tuple(path) for path in paths}, key=lambda path: [name_key(name) for name in path])
    depth = len(levels)
    for path in ordered:
        if len(path) != depth:
            raise ValueError(f"path {'/'.join(path)} has {len(path)} units for {depth} levels")
    names: list[list[str]] = [[] for _ in range(depth)]
    above: list[list[int]] = [[] for _ in range(depth)]
    ancestors = np.zeros((depth, len(ordered)), dtype=np.int64)  # [levels, leaves]
    previous: tuple[str, ...] = ()
    for leaf, path in enumerate(ordered):
        shared = 0
        while shared < len(previous) and shared < depth - 1 and path[shared] == previous[shared]:
            shared += 1
        for level in range(shared, depth):
            above[level].append(len(names[level - 1]) - 1 if level else 0)
            names[level].append(path[level])
        ancestors[:, leaf] = [len(units) - 1 for units in names]
        previous = path
    parents = tuple(np.array(row, dtype=np.int64) for row in above)
    sizes = [1, *(len(units) for units in names)]
    offsets = tuple(
        np.searchsorted(parents[level], np.arange(sizes[level] + 1)).astype(np.int64)
        for level in range(depth)
    )
    for array in (*parents, *offsets, ancestors):
        array.flags.writeable = False
    index = {name: leaf for leaf, name in enumerate(names[-1])}
    if len(index) != len(ordered):
        raise ValueError("a node stands in two places of the tree")
    return Tree(tuple(levels), tuple(map(tuple, names)), parents, offsets, tuple(ancestors), index)


def flat(nodes: Iterable[str]) -> Tree:
    """The tree used when no topology is given: a root with all nodes as leaves."""
    return build((FLAT_LEVEL,), ((name,) for name in nodes))


def from_labels(labels: Mapping[str, Mapping[str, str]], keys: Sequence[str]) -> tuple[Tree, tuple[str, ...]]:
    """A tree from node labels (node name -> labels), one level per label key from top to bottom.

    The leaves are the nodes: a last key `kubernetes.io/hostname` names their level, otherwise a level
    `node` is added. Returns the tree and the names of the nodes that lack one of the labels.
    """
    inner = tuple(key for key in keys if key != HOSTNAME_LABEL)
    leaf_level = HOSTNAME_LABEL if HOSTNAME_LABEL in keys else FLAT_LEVEL
    paths: list[tuple[str, ...]] = []
    missing: list[str] = []
    for node, values in labels.items():
        if all(values.get(key) for key in inner):
            paths.append((*(values[key] for key in inner), node))
        else:
            missing.append(node)
    return build((*inner, leaf_level), paths), tuple(sorted(missing, key=name_key))
