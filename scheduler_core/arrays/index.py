"""The resource index: which row of every `[R, N]` array belongs to which resource."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.model import names
from scheduler_core.model.resources import ResourceList

Int64 = NDArray[np.int64]

PODS_ROW: Final = 3  # in the order that ResourceIndex begins with

# What is counted of a resource in one place at most, so that int64 holds it beside as much again.
# Whoever names the node itself is not asked whether a pod fits there, and may request any number.
MOST_COUNTED: Final = 2**62

# The fit filter reports two bits per resource in a uint64; beyond this a resource gets no row.
MAX_ROWS: Final = 31
# Pods may name any resource, so they make rows only up to here: the others are for what nodes have.
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
        """Row of a resource, or None if nobody has named it yet."""
        return self._rows.get(name)

    def ensure(self, resources: ResourceList, most: int = MAX_ROWS) -> bool:
        """Give every resource a row; True if the index grew. Resources beyond so many rows get none."""
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
