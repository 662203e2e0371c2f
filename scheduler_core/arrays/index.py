"""The resource index: the row of each resource in every `[R, N]` array."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.model import names
from scheduler_core.model.resources import ResourceList

PODS_ROW: Final = 3  # in the order that ResourceIndex begins with

# The largest amount of a resource that counts in one place, so that the sum of two still fits an int64. A pod
# that sets spec.nodeName bypasses the fit filter and may request any number.
MOST_COUNTED: Final = 2**62

# The fit filter reports two bits per resource in a uint64; beyond this a resource gets no row.
MAX_ROWS: Final = 31
# Pods may name any resource, so they add rows only up to here; the other rows are for resources of nodes.
MAX_ROWS_OF_PODS: Final = 16


class ResourceIndex:
    """Resources in a fixed order: cpu, memory, ephemeral-storage, pods, then others as they become known.

    The index only grows, so a row keeps its meaning for the life of the process.
    """

    def __init__(self) -> None:
        self.names: list[str] = [names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE, names.PODS]
        self._rows = {name: row for row, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int | None:
        """Row of a resource, or None if it is not known yet."""
        return self._rows.get(name)

    def ensure(self, resources: ResourceList, most: int = MAX_ROWS) -> bool:
        """Give every resource a row; True if the index grew. Resources beyond the limit get no row."""
        before = len(self.names)
        for name in resources:
            if name not in self._rows and len(self.names) < most:
                self._rows[name] = len(self.names)
                self.names.append(name)
        return len(self.names) > before

    def vector(self, resources: ResourceList) -> Int64:
        """Values in index order, int64 [R]; resources without a row are left out."""
        out: Int64 = np.zeros(len(self.names), dtype=np.int64)  # [R]
        for name, value in resources.items():
            row = self._rows.get(name)
            if row is not None:
                out[row] = value
        return out
