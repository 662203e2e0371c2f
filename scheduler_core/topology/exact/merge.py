"""Merges the tables of children into the table of their parent, and reads decisions back out.

Children are merged pairwise in rounds, all parents of a round at once. The rounds are kept: a wanted entry
is taken apart along them, from the last to the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.exact.tables import (
    MOST_BYTES,
    Expired,
    OutOfBudget,
    Table,
    infeasible,
    product,
    split,
)
from scheduler_core.topology.objective import INFEASIBLE


@dataclass(frozen=True, eq=False)
class Siblings:
    """Parents with a similar number of children. parents: int64 [parents]; children: int64 [parents, slots],
    -1 where a parent has fewer."""

    parents: NDArray[np.int64]
    children: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Merge:
    """One merge of siblings. used: how many children a used parent uses (0 when that is free).

    Parents whose children have the same tables are merged once: kind_of, int64 [parents], says as which kind.
    rounds[i]: the tables before round i, [words, kinds, slots left, K, C]. table: [words, parents, C].
    """

    siblings: Siblings
    used: int
    kind_of: NDArray[np.int64]
    rounds: tuple[Table, ...]
    table: Table

    def take_apart(self, row: int, added: int) -> Iterator[tuple[int, int]]:
        """(child, pods added) for every child of the parent in `row` that is given pods."""
        wanted, kind = {0: (self.used, added)}, self.kind_of[row]
        for tables in reversed(self.rounds):
            finer: dict[int, tuple[int, int]] = {}
            for slot, (k, c) in wanted.items():
                left = 2 * slot
                if left + 1 == tables.shape[2]:
                    finer[left] = (k, c)
                    continue
                k_right, c_right = split(tables[:, kind, left], tables[:, kind, left + 1], k, c)
                if c - c_right:
                    finer[left] = (k - k_right, c - c_right)
                if c_right:
                    finer[left + 1] = (k_right, c_right)
            wanted = finer
        for slot, (_, c) in wanted.items():
            yield int(self.siblings.children[row, slot]), c


def gather_siblings(offsets: NDArray[np.int64], parents: NDArray[np.int64]) -> list[Siblings]:
    """Group parents so that padding to the widest family of a group costs at most a factor of two."""
    if not len(parents):
        return []
    counts = offsets[parents + 1] - offsets[parents]
    if int(counts.min()) == (widest := int(counts.max())):
        return [Siblings(parents, offsets[parents][:, None] + np.arange(widest))]
    sizes = np.where(counts > 1, 1 << np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64), counts)
    groups = []
    for size in np.unique(sizes).tolist():
        chosen = parents[sizes == size]
        families = counts[sizes == size]
        slots = np.arange(families.max())
        children = np.where(slots < families[:, None], offsets[chosen][:, None] + slots, -1)
        groups.append(Siblings(chosen, children))
    return groups


def merge_siblings(
    tables: Table,
    siblings: Siblings,
    exact: int | None,
    based: NDArray[np.bool_],
    most: int,
    expired: Expired,
) -> Merge:
    """Merge tables [words, units, C] of one level into those of the parents, up to `most` pods added.

    exact: how many children a used parent uses, or None. based: bool [units], units that hold pods already.
    Raises OutOfBudget.
    """
    lifted = _with_used_axis(tables, based) if exact is not None else tables[:, :, None, :]
    words, _, used, added = lifted.shape
    current = lifted[:, siblings.children]  # [words, parents, slots, K, C]
    nothing = infeasible((words, used, added))
    nothing[:, 0, 0] = 0
    current[:, siblings.children < 0] = nothing[:, None]
    places, kind_of = _kinds(current)
    current = current[:, places, ..., : most + 1]
    rounds: list[Table] = []
    while current.shape[2] > 1:
        rounds.append(current)
        if sum(table.nbytes for table in rounds) > MOST_BYTES:
            raise OutOfBudget
        current = _round(current, exact or 0, most, expired)
    table = _parent_table(current[:, :, 0], exact)[:, kind_of]
    return Merge(siblings, exact or 0, kind_of, tuple(rounds), table)


def _kinds(families: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of tables [words, parents, ...]: the first parent of each kind, and the kind of each parent."""
    kinds: dict[bytes, int] = {}
    parents = range(families.shape[1])
    if len(parents) == 1:
        return np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    kind_of = [kinds.setdefault(families[:, parent].tobytes(), len(kinds)) for parent in parents]
    return np.unique(kind_of, return_index=True)[1], np.array(kind_of, dtype=np.int64)


def _round(current: Table, most_used: int, most: int, expired: Expired) -> Table:
    words, parents, slots = current.shape[:3]
    pairs = slots // 2
    left, right = current[:, :, 0 : 2 * pairs : 2], current[:, :, 1 : 2 * pairs : 2]
    flat = (words, parents * pairs, *current.shape[3:])
    merged = product(left.reshape(flat), right.reshape(flat), most_used, most, expired)
    merged = merged.reshape(words, parents, pairs, *merged.shape[2:])
    if slots % 2:
        odd = infeasible((words, parents, 1, *merged.shape[3:]))
        last = current[:, :, -1:]
        odd[..., : last.shape[3], : last.shape[4]] = last
        merged = np.concatenate((merged, odd), axis=2)
    return merged


def _with_used_axis(tables: Table, based: NDArray[np.bool_]) -> Table:
    """[words, units, C] to [words, units, 2, C]: whether the unit is used, counting what it holds already."""
    words, units, added = tables.shape
    lifted = infeasible((words, units, 2, added))
    lifted[:, :, 1] = tables
    lifted[:, ~based, 0, 0] = tables[:, ~based, 0]
    lifted[0, ~based, 1, 0] = INFEASIBLE
    return lifted


def _parent_table(merged: Table, exact: int | None) -> Table:
    """[words, parents, K, C] to [words, parents, C]: an unused parent, or one that uses `exact` children."""
    if exact is None:
        return merged[:, :, 0]
    words, parents, used, added = merged.shape
    table = merged[:, :, exact].copy() if exact < used else infeasible((words, parents, added))
    unused = merged[0, :, 0, 0] < INFEASIBLE
    table[:, unused, 0] = merged[:, unused, 0, 0]
    return table
