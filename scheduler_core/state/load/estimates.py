"""Estimates of assigned pods as columns, by row of the table of placed pods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.growth import longer
from scheduler_core.arrays.types import Float, Int64
from scheduler_core.load.estimate import Report, deadline, estimate_pod, scheduled_at
from scheduler_core.load.priority import PROD, band_of
from scheduler_core.load.spec import LoadSpec
from scheduler_core.state.load.assigned import Assigned, Layout


class PodEstimates:
    """Per pod: estimated use, start time, and until when only the estimate counts."""

    def __init__(self, spec: LoadSpec) -> None:
        self._spec = spec
        self._layouts: dict[int, Layout] = {}
        self._known: list[Assigned | None] = [None] * 64
        self.estimate: Int64 = np.zeros((len(spec.resources), 64), dtype=np.int64)  # [R, capacity]
        self.scheduled: Float = np.zeros(64, dtype=np.float64)  # [capacity]
        self.deadline: Float = np.zeros(64, dtype=np.float64)  # [capacity]
        self.prod: NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)  # [capacity]

    def learn(self, slot: int, layout: Layout, report: Report) -> None:
        """Make sure that the rows of a slot hold the estimates of its pods as they are now."""
        if self._layouts.get(slot) is layout:
            return
        self._layouts[slot] = layout
        for item in layout.items:
            if item.row >= len(self._known):
                self._grow(item.row + 1)
            if self._known[item.row] is not item:
                self._known[item.row] = item
                self._estimate(item, report)

    def _estimate(self, item: Assigned, report: Report) -> None:
        row, scheduled = item.row, scheduled_at(item.pod, item.learned)
        self.estimate[:, row] = estimate_pod(item.pod, self._spec, report)
        self.scheduled[row] = scheduled
        self.deadline[row] = deadline(item.pod, self._spec.estimation, scheduled, report)
        self.prod[row] = band_of(item.pod) == PROD

    def _grow(self, size: int) -> None:
        capacity = max(size, len(self._known) + len(self._known) // 2)
        self._known.extend([None] * (capacity - len(self._known)))
        self.estimate, self.prod = longer(self.estimate, capacity), longer(self.prod, capacity)
        self.scheduled, self.deadline = longer(self.scheduled, capacity), longer(self.deadline, capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and of the list beside them."""
        arrays = (self.estimate, self.scheduled, self.deadline, self.prod)
        return 8 * len(self._known) + sum(column.nbytes for column in arrays)
