"""Who carries terms, in columns: the sums of thousands of terms are made at once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from scheduler_core.arrays.growth import longer
from scheduler_core.arrays.types import Int32, Int64

V = TypeVar("V", bound=Hashable)


class SharedIds(Generic[V]):
    """Values to small integers. Who takes one gives it back; the last one leaves it to another value."""

    def __init__(self) -> None:
        self._ids: dict[V, int] = {}
        self._users: list[int] = []
        self._free: list[int] = []

    def take(self, value: V) -> int:
        """The value's integer, for one more user."""
        found = self._ids.get(value)
        if found is None:
            found = self._free.pop() if self._free else len(self._users)
            if found == len(self._users):
                self._users.append(0)
            self._ids[value] = found
        self._users[found] += 1
        return found

    def give(self, value: V) -> None:
        """One user less."""
        found = self._ids[value]
        self._users[found] -= 1
        if not self._users[found]:
            del self._ids[value]
            self._free.append(found)

    def values(self) -> list[V | None]:
        """The values by integer; None where nobody has one."""
        found: list[V | None] = [None] * len(self._users)
        for value, number in self._ids.items():
            found[number] = value
        return found


class CarrierTable:
    """Columns of terms [T] and of places [P]: a place is a placed pod that carries a term.

    `role`, `weight`, `key` and `audience` (numbers of the caller's) describe a term, `places` counts its
    places. Of a place, `term` and `slot` say which term and node it is of, `pod` is the pod's row in the
    table of placed pods. Rows that were dropped are used again.
    """

    def __init__(self) -> None:
        self.role: Int32 = np.zeros(8, dtype=np.int32)  # [T]
        self.weight: Int64 = np.zeros(8, dtype=np.int64)  # [T]
        self.key: Int32 = np.zeros(8, dtype=np.int32)  # [T]
        self.audience: Int32 = np.zeros(8, dtype=np.int32)  # [T]
        self.places: Int32 = np.zeros(8, dtype=np.int32)  # [T]
        self.term: Int32 = np.zeros(8, dtype=np.int32)  # [P]; -1 for a place that was dropped
        self.slot: Int64 = np.zeros(8, dtype=np.int64)  # [P]
        self.pod: Int64 = np.zeros(8, dtype=np.int64)  # [P]
        self._free_terms: list[int] = []
        self._free_places: list[int] = []
        self._terms = self._most_places = 0

    def new_term(self, role: int, weight: int, key: int, audience: int) -> int:
        """The row of a term without places."""
        row = self._free_terms.pop() if self._free_terms else self._terms
        if row == self._terms:
            self._terms += 1
            if row == len(self.role):
                self._grow_terms()
        self.role[row], self.weight[row], self.key[row], self.audience[row] = role, weight, key, audience
        return row

    def _grow_terms(self) -> None:
        size = 2 * len(self.role)
        self.role, self.weight = longer(self.role, size), longer(self.weight, size)
        self.key, self.audience = longer(self.key, size), longer(self.audience, size)
        self.places = longer(self.places, size)

    def drop_term(self, row: int) -> None:
        """A term without places is not kept."""
        self._free_terms.append(row)

    def new_place(self, term: int, slot: int, pod: int) -> int:
        """The row of a place."""
        row = self._free_places.pop() if self._free_places else self._most_places
        if row == self._most_places:
            self._most_places += 1
            if row == len(self.term):
                size = 2 * row
                self.term = longer(self.term, size)
                self.slot, self.pod = longer(self.slot, size), longer(self.pod, size)
        self.term[row], self.slot[row], self.pod[row] = term, slot, pod
        self.places[term] += 1
        return row

    def drop_place(self, row: int) -> None:
        """The pod is gone, or does not carry the term any more."""
        self.places[self.term[row]] -= 1
        self.term[row] = -1
        self._free_places.append(row)

    def carriers(self, terms: Int64, weights: Int64) -> tuple[Int32, Int64, Int64]:
        """(topology key, place, weight) of all places of some terms that weigh anything, each [K]."""
        # The places that were dropped find the last weight.
        by_term: Int64 = np.zeros(self._terms + 1, dtype=np.int64)  # [T + 1]
        by_term[terms] = weights
        found = by_term[self.term[: self._most_places]]  # [P]
        places = np.flatnonzero(found)
        return self.key[self.term[places]], places, found[places]
