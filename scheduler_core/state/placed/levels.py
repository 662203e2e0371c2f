"""Priority levels of placed pods by namespace: the lowest priority, and counts per priority."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_core.arrays.types import Int64

NOBODY: Final = np.iinfo(np.int64).max


class Levels:
    """The number of placed pods of each priority, per namespace id of the pod table.

    `lowest` is int64 [namespaces or more], NOBODY where no pod is.
    """

    def __init__(self) -> None:
        self.lowest: Int64 = np.full(16, NOBODY, dtype=np.int64)
        self._counts: list[dict[int, int]] = []

    def lowest_of(self, namespace: int) -> int:
        """The lowest priority in a namespace, NOBODY where no pod is, or where it was never seen."""
        return int(self.lowest[namespace]) if 0 <= namespace < len(self.lowest) else NOBODY

    def add(self, namespace: int, priority: int, count: int = 1) -> None:
        """Pods got nodes."""
        while namespace >= len(self._counts):
            self._counts.append({})
        if namespace >= len(self.lowest):
            grown: Int64 = np.full(2 * namespace, NOBODY, dtype=np.int64)
            grown[: len(self.lowest)] = self.lowest
            self.lowest = grown
        counts = self._counts[namespace]
        counts[priority] = counts.get(priority, 0) + count
        if priority < self.lowest[namespace]:
            self.lowest[namespace] = priority

    def remove(self, namespace: int, priority: int) -> None:
        """A pod lost its node."""
        counts = self._counts[namespace]
        counts[priority] -= 1
        if not counts[priority]:
            del counts[priority]
            self.lowest[namespace] = min(counts, default=NOBODY)
