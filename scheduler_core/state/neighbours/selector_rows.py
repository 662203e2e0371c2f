"""Selectors as rows: all that match a set of labels are found at once, whatever they are made of.

A selector is a conjunction. Each of its requirements is filed under the pairs, or the key, of a label that
decides it: what a pod has makes some of them true (In, Exists) and others false (NotIn, DoesNotExist). A
selector matches where all of the former are true and none of the latter is false. So the labels of a pod are
looked up, and the selectors are counted in an array: a tenant may have tens of thousands of them, which would
take 1 to 2 us each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.growth import longer
from scheduler_core.arrays.types import Int32, Int64
from scheduler_core.model.selectors import EXISTS, IN, NOT_EXISTS, Selector

# A label pair; with None a key of any value.
_Place = tuple[str, str | None]
# What a row without a selector, or with one that contradicts itself, would need: no labels give it.
_NEVER: Final = -1
# More than any number of requirements.
_FALSE: Final = 1 << 20


class _Conditions(NamedTuple):
    """What is filed of a selector: at most one place of each of `wanted` is found in any labels."""

    wanted: list[list[_Place]]
    banned: list[_Place]


class _OfKey:
    """All that a selector says of one key: of several values to have, those are left that all name."""

    __slots__ = ("absent", "allowed", "banned", "present")

    def __init__(self) -> None:
        self.allowed: dict[str, None] | None = None
        self.banned: set[str] = set()
        self.present = False
        self.absent = False

    def add(self, operator: str, values: tuple[str, ...]) -> None:
        """One more requirement."""
        if operator == IN:
            known = self.allowed
            self.allowed = {value: None for value in values if known is None or value in known}
        elif operator == EXISTS:
            self.present = True
        elif operator == NOT_EXISTS:
            self.absent = True
        else:
            self.banned.update(values)


def _conditions(selector: Selector) -> _Conditions | None:
    """The conditions of a selector; None where no labels match it."""
    if selector.nothing:
        return None
    if len(selector.requirements) == 1:
        # Most have one, and it needs no comparison with others.
        (only,) = selector.requirements
        places: list[_Place] = [(only.key, value) for value in dict.fromkeys(only.values)] or [
            (only.key, None)
        ]
        wanted = only.operator in (IN, EXISTS)
        return _Conditions([places], []) if wanted else _Conditions([], places)
    keys: dict[str, _OfKey] = {}
    for requirement in selector.requirements:
        keys.setdefault(requirement.key, _OfKey()).add(requirement.operator, requirement.values)
    found = _Conditions([], [])
    for key, said in keys.items():
        needed = said.present or said.allowed is not None
        if said.absent:
            if needed:
                return None
            found.banned.append((key, None))
        elif said.allowed is not None:
            left: list[_Place] = [(key, value) for value in said.allowed if value not in said.banned]
            if not left:
                return None
            found.wanted.append(left)
        else:
            if said.present:
                found.wanted.append([(key, None)])
            found.banned.extend((key, value) for value in sorted(said.banned))
    return found


class _Rows:
    """Some rows, each once."""

    __slots__ = ("_array", "_rows")

    def __init__(self, rows: Iterable[int]) -> None:
        self._rows = dict.fromkeys(rows)
        self._array: Int64 | None = None

    def add(self, row: int) -> None:
        """One more."""
        self._rows[row] = None
        self._array = None

    def discard(self, row: int) -> bool:
        """One less; whether none is left."""
        del self._rows[row]
        self._array = None
        return not self._rows

    def array(self) -> Int64:
        """int64 [K]."""
        if self._array is None:
            self._array = np.fromiter(self._rows, dtype=np.int64, count=len(self._rows))
        return self._array


class _Filed:
    """Rows by place. Most places have one row, which takes no container."""

    def __init__(self) -> None:
        self._rows: dict[_Place, int | _Rows] = {}

    def add(self, place: _Place, row: int) -> None:
        """File a row."""
        found = self._rows.get(place)
        if found is None:
            self._rows[place] = row
        elif isinstance(found, int):
            self._rows[place] = _Rows((found, row))
        else:
            found.add(row)

    def remove(self, place: _Place, row: int) -> None:
        """Take a row out that is filed here."""
        found = self._rows[place]
        if isinstance(found, int) or found.discard(row):
            del self._rows[place]

    def under(self, labels: Mapping[str, str]) -> Iterator[int | Int64]:
        """Rows under the pairs and the keys of labels, a few at a time."""
        if not self._rows:
            return
        for key, value in labels.items():
            for place in ((key, value), (key, None)):
                found = self._rows.get(place)
                if found is not None:
                    yield found if isinstance(found, int) else found.array()


class SelectorRows:
    """Selectors, each with an item: a number of the caller's."""

    def __init__(self) -> None:
        self._wanted = _Filed()
        self._banned = _Filed()
        self._needed: Int32 = np.zeros(8, dtype=np.int32)  # [capacity]
        self._items: Int64 = np.zeros(8, dtype=np.int64)  # [capacity]
        self._size = 0
        self._rows: dict[int, int] = {}
        self._free: list[int] = []

    def add(self, item: int, selector: Selector) -> None:
        """File an item; an item is filed once."""
        row = self._rows[item] = self._free.pop() if self._free else self._new_row()
        found = _conditions(selector)
        self._items[row] = item
        self._needed[row] = _NEVER if found is None else len(found.wanted)
        if found is not None:
            for places in found.wanted:
                for place in places:
                    self._wanted.add(place, row)
            for place in found.banned:
                self._banned.add(place, row)

    def _new_row(self) -> int:
        if self._size == len(self._needed):
            self._needed = longer(self._needed, 2 * self._size)
            self._items = longer(self._items, 2 * self._size)
        self._size += 1
        return self._size - 1

    def remove(self, item: int, selector: Selector) -> None:
        """Take an item out that is filed under this selector."""
        row = self._rows.pop(item)
        self._needed[row] = _NEVER
        self._free.append(row)
        found = _conditions(selector)
        if found is not None:
            for places in found.wanted:
                for place in places:
                    self._wanted.remove(place, row)
            for place in found.banned:
                self._banned.remove(place, row)

    def matching(self, labels: Mapping[str, str]) -> Int64:
        """int64 [K]: the items whose selectors match."""
        hits: Int32 = np.zeros(self._size, dtype=np.int32)  # [rows]
        for rows in self._wanted.under(labels):
            hits[rows] += 1
        for rows in self._banned.under(labels):
            hits[rows] -= _FALSE
        return self._items[np.flatnonzero(hits == self._needed[: self._size])]

    def __len__(self) -> int:
        return len(self._rows)
