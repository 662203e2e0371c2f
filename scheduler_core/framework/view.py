"""Views of nodes for plugins: columns of all nodes, of some nodes, or of one node with hypothetical use.

The same plugin code runs on all nodes, on the few that changed, and on hypothetical use, so a cached answer
equals a fresh one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Float, Int32, Int64
from scheduler_core.state.nodes.table import NodeTable

Slots = slice | NDArray[np.int64]


class NodeView:
    """A selection of node slots, M of them. Arrays are [R, M] or [M]; treat them as read-only.

    A range of slots reads the table directly; for single slots the view keeps a copy from the first read.
    """

    __slots__ = ("_allocatable", "_nonzero", "_requested", "slots", "table")

    def __init__(
        self,
        table: NodeTable,
        slots: Slots,
        requested: Int64 | None = None,
        nonzero: Int64 | None = None,
    ) -> None:
        self.table = table
        self.slots = slots
        self._requested = requested
        self._nonzero = nonzero
        self._allocatable: Int64 | None = None

    @classmethod
    def all(cls, table: NodeTable) -> NodeView:
        """Every slot, alive or not."""
        return cls(table, slice(0, table.size))

    def __len__(self) -> int:
        if isinstance(self.slots, slice):
            return int(self.slots.stop - self.slots.start)
        return len(self.slots)

    def with_added(self, times: Int64 | int, vector: Int64, nonzero: tuple[int, int]) -> NodeView:
        """The same nodes as if `times` ([M] or one number) pods of that size had been added to each."""
        requested = self.requested.copy()  # [R, M]
        requested[: len(vector)] += vector[:, None] * times
        counted = self.nonzero.copy()  # [2, M]
        counted[0] += times * nonzero[0]
        counted[1] += times * nonzero[1]
        return NodeView(self.table, self.slots, requested, counted)

    @property
    def indices(self) -> NDArray[np.int64]:
        """Slot numbers, int64 [M]."""
        if isinstance(self.slots, slice):
            return np.arange(self.slots.start, self.slots.stop, dtype=np.int64)
        return self.slots

    @property
    def allocatable(self) -> Int64:
        """int64 [R, M]."""
        if isinstance(self.slots, slice):
            return self.table.allocatable[:, self.slots]
        if self._allocatable is None:
            # `take` is several times quicker for a few nodes than an index.
            self._allocatable = self.table.allocatable.take(self.slots, axis=1)
        return self._allocatable

    def _row(self, column: Float) -> Float:
        """[N] to [M]."""
        slots = self.slots
        return column[slots] if isinstance(slots, slice) else column.take(slots)

    def divisor(self, row: int) -> Float | None:
        """float64 [M]: allocatable of one resource, never 0 (1 where no node is).

        None where it would not divide exactly, see `NodeTable.ordinary`.
        """
        return self._row(self.table.divisor[row]) if self.table.ordinary(row) else None

    @property
    def requested(self) -> Int64:
        """int64 [R, M], assumed pods included."""
        if self._requested is not None:
            return self._requested
        if isinstance(self.slots, slice):
            return self.table.requested[:, self.slots]
        self._requested = self.table.requested.take(self.slots, axis=1)
        return self._requested

    @property
    def nonzero(self) -> Int64:
        """int64 [2, M]: cpu and memory with kube-scheduler's defaults for what is not requested."""
        if self._nonzero is not None:
            return self._nonzero
        if isinstance(self.slots, slice):
            return self.table.nonzero[:, self.slots]
        self._nonzero = self.table.nonzero.take(self.slots, axis=1)
        return self._nonzero

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        """bool [M]: spec.unschedulable."""
        return self.table.unschedulable[self.slots]

    @property
    def taint_set(self) -> Int32:
        """int32 [M]: index into `table.taint_sets.values`."""
        return self.table.taint_set[self.slots]

    def label(self, key: str) -> Int32:
        """int32 [M]: value id of a label (ABSENT where missing), see `table.column(key).values`."""
        return self.table.column(key).ids[self.slots]
