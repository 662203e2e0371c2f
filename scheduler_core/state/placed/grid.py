"""Grid of placed pods by node, least important first, kept between attempts to avoid sorting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Float, Int32, Int64

EMPTY: Final = -1
# If more than this fraction (1/4) of the columns changed, all are rebuilt.
_MOST_COLUMNS: Final = 4


class PodColumns(Protocol):
    """The columns of the pod table that decide where a row stands in the grid, [size or more] each."""

    alive: Bool
    slot: Int32
    priority: Int64
    rank: Int64
    ranked: bool
    since: Float

    @property
    def size(self) -> int:
        """Number of rows in use."""
        ...


class PodGrid:
    """One column per node slot: rows of the pod table in order of removal, EMPTY below the last.

    The order is lowest priority, lowest rank, latest start, then row. Changed columns are rebuilt on the next
    read.
    """

    def __init__(self) -> None:
        self.cells: Int32 = np.full((1, 64), EMPTY, dtype=np.int32)  # [J, N]
        self._columns: set[int] = set()
        self._arrived: set[int] = set()

    def touch(self, row: int, slot: int) -> None:
        """A row came to a slot, left it, or changed its place in the order."""
        self._columns.add(slot)
        self._arrived.add(row)

    def touch_all(self, rows: Iterable[int], slots: Iterable[int]) -> None:
        """Rows came to slots."""
        self._columns.update(slots)
        self._arrived.update(rows)

    def rows(self, table: PodColumns, slots: int) -> Int32:
        """int32 [J, slots], up to date. Read only; J is at least 1."""
        if self._columns or slots > self.cells.shape[1]:
            self._update(table, slots)
        return self.cells[:, :slots]

    def _update(self, table: PodColumns, slots: int) -> None:
        width = max(self.cells.shape[1], slots, max(self._columns, default=0) + 1)
        if width > self.cells.shape[1]:
            self.cells = _padded(self.cells, self.cells.shape[0], 2 * width)
        changed: Bool = np.zeros(self.cells.shape[1], dtype=np.bool_)  # [N]
        if _MOST_COLUMNS * len(self._columns) > width:
            changed[:] = True
            found = np.flatnonzero(table.alive[: table.size])
        else:
            columns = np.array(sorted(self._columns), dtype=np.int64)
            changed[columns] = True
            arrived = np.fromiter(self._arrived, dtype=np.int64, count=len(self._arrived))
            known = self.cells[:, columns].ravel()
            found = np.unique(np.concatenate([known[known != EMPTY], arrived]))
            found = found[table.alive[found]]
            found = found[changed[table.slot[found]]]
        self.cells[:, changed] = EMPTY
        self._fill(table, found)
        self._columns.clear()
        self._arrived.clear()

    def _fill(self, table: PodColumns, found: NDArray[np.int64]) -> None:
        """Write rows into their (empty) columns, each column in its order."""
        if not len(found):
            return
        ranks = (table.rank[found],) if table.ranked else ()
        order = np.lexsort((found, -table.since[found], *ranks, table.priority[found], table.slot[found]))
        rows, columns = found[order], table.slot[found[order]]
        first = np.flatnonzero(np.r_[True, np.diff(columns) != 0])
        place = np.arange(len(rows)) - np.repeat(first, np.diff(np.r_[first, len(rows)]))
        depth = int(place.max()) + 1
        if depth > self.cells.shape[0]:
            self.cells = _padded(self.cells, depth, self.cells.shape[1])
        self.cells[place, columns] = rows


def _padded(rows: Int32, depth: int, width: int) -> Int32:
    out: Int32 = np.full((depth, width), EMPTY, dtype=np.int32)  # [J, N]
    out[: rows.shape[0], : rows.shape[1]] = rows
    return out
