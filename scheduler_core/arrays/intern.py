"""Interning: equal values become the same small integer, so that arrays can hold them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np

from scheduler_core.arrays.types import Int32

V = TypeVar("V", bound=Hashable)

ABSENT = -1


class Interner(Generic[V]):
    """Values to consecutive integers, in order of first sight."""

    def __init__(self) -> None:
        self.values: list[V] = []
        self._ids: dict[V, int] = {}

    def id(self, value: V) -> int:
        """The value's integer, given on first sight."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found

    def find(self, value: V) -> int:
        """The value's integer, or ABSENT if it was never seen."""
        return self._ids.get(value, ABSENT)

    def __len__(self) -> int:
        return len(self.values)


class LabelColumn:
    """One label key over all nodes: value id per slot (ABSENT where the node lacks the key)."""

    def __init__(self, capacity: int) -> None:
        self.ids: Int32 = np.full(capacity, ABSENT, dtype=np.int32)  # [capacity]
        self.values: Interner[str] = Interner()

    def set(self, slot: int, value: str | None) -> None:
        """Store the value of one node."""
        self.ids[slot] = ABSENT if value is None else self.values.id(value)

    def fill(self, values: Iterable[str | None]) -> None:
        """Store the values of the first slots."""
        number = self.values.id
        ids = [ABSENT if value is None else number(value) for value in values]
        self.ids[: len(ids)] = ids

    def grow(self, capacity: int) -> None:
        """Make room for more nodes."""
        grown: Int32 = np.full(capacity, ABSENT, dtype=np.int32)  # [capacity]
        grown[: len(self.ids)] = self.ids
        self.ids = grown
