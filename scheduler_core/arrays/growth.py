"""Growth of columns: the same values in a larger array."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)


def longer(column: NDArray[Kind], capacity: int) -> NDArray[Kind]:
    """A copy of a column [..., capacity]; the new values are zero."""
    grown: NDArray[Kind] = np.zeros((*column.shape[:-1], capacity), dtype=column.dtype)
    grown[..., : column.shape[-1]] = column
    return grown
