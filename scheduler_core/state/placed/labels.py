"""Labels of placed pods as columns, so that a selector is evaluated for all pods at once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.intern import ABSENT, Interner, LabelColumn
from scheduler_core.arrays.types import Bool, Int32
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import EXISTS, IN, NOT_EXISTS, Requirement, Selector
from scheduler_core.state.placed.pods import PodTable

Rows = NDArray[np.int64]

# Keys kept as columns at most: 4 bytes per placed pod each.
_MAX_COLUMNS: Final = 256
# A column that has seen this many more values than twice the rows is dropped: job names never come back.
_SPARE_VALUES: Final = 1024


class PodLabels:
    """Columns over the rows of a PodTable. A key becomes a column when a selector first names it;
    nothing is `kept` before the first question. Rows that are not alive in the table hold anything.
    """

    def __init__(self, table: PodTable) -> None:
        self._table = table
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()
        self.kept = False
        self._capacity = 0

    def set(self, row: int, pod: Pod) -> None:
        """Store the labels of the pod in a row; only while `kept`."""
        if row >= self._capacity:
            self._grow(len(self._table.alive))
        limit = 2 * self._table.size + _SPARE_VALUES
        worn = None
        for key, column in self._columns.items():
            column.set(row, pod.labels.get(key))
            if len(column.values) > limit:
                worn = key
        if worn is not None:
            del self._columns[worn]

    def _grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in self._columns.values():
            column.grow(capacity)

    def _keep(self) -> None:
        """Start to follow the table: many clusters never ask."""
        if not self.kept:
            self.kept = True
            self._grow(len(self._table.alive))

    def column(self, key: str) -> LabelColumn:
        """The column of a label key, made on first use and kept current from then on."""
        found = self._columns.get(key)
        if found is not None:
            self._columns.move_to_end(key)
            return found
        self._keep()
        made = self._columns[key] = LabelColumn(self._capacity)
        made.fill(pod.labels.get(key) if pod is not None else None for pod in self._table.pods)
        if len(self._columns) > _MAX_COLUMNS:
            self._columns.popitem(last=False)
        return made

    def rows(self, namespaces: frozenset[str] | None, selector: Selector, *, live: bool) -> Rows:
        """Rows of placed pods that a selector matches in some namespaces (None: all), int64 [K] ascending.

        `live` leaves out pods that are terminating or to be evicted.
        """
        table = self._table
        self._keep()
        if selector.nothing:
            return np.zeros(0, dtype=np.int64)
        rows: Rows | None = None
        # The positive tests leave the fewest rows to look at.
        for requirement in sorted(selector.requirements, key=lambda r: r.operator != IN):
            column = self.column(requirement.key)
            ids = column.ids[: table.size] if rows is None else column.ids[rows]
            passed = _passes(ids, requirement, column.values)
            rows = np.flatnonzero(passed) if rows is None else rows[passed]
        if rows is None:
            rows = np.arange(table.size, dtype=np.int64)
        keep = table.alive[rows]
        if namespaces is not None:
            keep &= self._within(rows, namespaces)
        if live:
            keep &= ~table.ending[rows]
        return rows[keep]

    def _within(self, rows: Rows, namespaces: frozenset[str]) -> Bool:
        known = self._table.namespaces
        if len(namespaces) == 1:
            (name,) = namespaces
            return self._table.namespace[rows] == known.find(name)
        wanted: Bool = np.zeros(len(known) + 1, dtype=np.bool_)  # [namespaces + 1]; unknown ones hit the last
        wanted[[known.find(name) for name in namespaces]] = True
        wanted[-1] = False
        return wanted[self._table.namespace[rows]]

    def check(self) -> list[str]:
        """Broken invariants in words: every column says what the pods in the table say."""
        problems = []
        for row, pod in enumerate(self._table.pods):
            if pod is None or not self.kept:
                continue
            for key, column in self._columns.items():
                found = column.ids[row]
                value = None if found == ABSENT else column.values.values[found]
                if value != pod.labels.get(key):
                    problems.append(
                        f"pod {pod.key}: label {key} is {pod.labels.get(key)}, column has {value}"
                    )
        return problems


def _passes(ids: Int32, requirement: Requirement, known: Interner[str]) -> Bool:
    """bool [M]: value ids that pass one requirement of a label selector."""
    if requirement.operator == EXISTS:
        return ids != ABSENT
    if requirement.operator == NOT_EXISTS:
        return ids == ABSENT
    inside: Bool = np.zeros(len(ids), dtype=np.bool_)  # [M]
    for wanted in {known.find(value) for value in requirement.values}:
        if wanted != ABSENT:
            inside |= ids == wanted
    return inside if requirement.operator == IN else ~inside
