"""Merging the tables of children into the table of their parent, and reading a decision back out.

Children are merged pairwise in rounds, all parents of a round at once. The rounds are kept: a wanted entry
is taken apart along them, from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.tables import Table, infeasible, product, split

Expired = Callable[[], bool]


class OutOfBudget(Exception):
    """The caller's budget ended before the optimum was proven."""


@dataclass(frozen=True, eq=False)
class Merge:
    """Parents merged together. children: int64 [parents, slots], -1 where a parent has fewer children.

    rounds[i]: the tables before round i, [words, parents, slots left, K, C]; result: [words, parents, K, C].
    """

    parents: NDArray[np.int64]
    children: NDArray[np.int64]
    rounds: tuple[Table, ...]
    result: Table

    def take_apart(self, row: int, used: int, added: int) -> Iterator[tuple[int, int]]:
        """(child, pods added) for every child of the parent in `row` that is given pods."""
        wanted = {0: (used, added)}
        for tables in reversed(self.rounds):
            finer: dict[int, tuple[int, int]] = {}
            for slot, (k, c) in wanted.items():
                left = 2 * slot
                if left + 1 == tables.shape[2]:
                    finer[left] = (k, c)
                    continue
                k_right, c_right = split(tables[:, row, left], tables[:, row, left + 1], k, c)
                if c - c_right:
                    finer[left] = (k - k_right, c - c_right)
                if c_right:
                    finer[left + 1] = (k_right, c_right)
            wanted = finer
        for slot, (_, c) in wanted.items():
            yield int(self.children[row, slot]), c


def merge_children(
    tables: Table,
    offsets: NDArray[np.int64],
    exact: int | None,
    based: NDArray[np.bool_],
    limits: NDArray[np.int64],
    expired: Expired,
) -> list[Merge]:
    """Merge the tables of one level, [words, units, C], into those of the level above.

    offsets: int64 [parents + 1], the children of each parent. exact: how many children a used parent uses, or
    None. based: bool [units], units that hold pods already. limits: int64 [parents], most pods to add.
    """
    lifted = _with_used_axis(tables, based) if exact is not None else tables[:, :, None, :]
    counts = np.diff(offsets)
    sizes = np.where(counts > 1, 1 << np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64), counts)
    merges = []
    for slots in np.unique(sizes).tolist():
        parents = np.flatnonzero(sizes == slots)
        width = int(counts[parents].max())
        children = offsets[parents][:, None] + np.arange(width)  # [parents, width]
        children = np.where(np.arange(width) < counts[parents][:, None], children, -1)
        most = int(limits[parents].max(initial=0))
        merges.append(_reduce(lifted, parents, children, exact or 0, most, expired))
    return merges


def _reduce(
    lifted: Table,
    parents: NDArray[np.int64],
    children: NDArray[np.int64],
    most_used: int,
    most: int,
    expired: Expired,
) -> Merge:
    words, _, used, added = lifted.shape
    current = lifted[:, children]  # [words, parents, slots, K, C]
    nothing = infeasible((words, used, added))
    nothing[:, 0, 0] = 0
    current[:, children < 0] = nothing[:, None]
    current = current[..., : most + 1]
    rounds: list[Table] = []
    while current.shape[2] > 1:
        if expired():
            raise OutOfBudget
        rounds.append(current)
        pairs = current.shape[2] // 2
        left, right = current[:, :, 0 : 2 * pairs : 2], current[:, :, 1 : 2 * pairs : 2]
        flat = (words, len(parents) * pairs, *current.shape[3:])
        merged = product(left.reshape(flat), right.reshape(flat), most_used, most)
        merged = merged.reshape(words, len(parents), pairs, *merged.shape[2:])
        if current.shape[2] % 2:
            odd = infeasible((words, len(parents), 1, *merged.shape[3:]))
            last = current[:, :, -1:]
            odd[..., : last.shape[3], : last.shape[4]] = last
            merged = np.concatenate((merged, odd), axis=2)
        current = merged
    return Merge(parents, children, tuple(rounds), current[:, :, 0])


def _with_used_axis(tables: Table, based: NDArray[np.bool_]) -> Table:
    """[words, units, C] to [words, units, 2, C]: whether the unit is used, counting what it holds already."""
    words, units, added = tables.shape
    lifted = infeasible((words, units, 2, added))
    lifted[:, :, 1] = tables
    lifted[:, ~based, 0, 0] = tables[:, ~based, 0]
    lifted[0, ~based, 1, 0] = infeasible((1,))
    return lifted
