"""Reports of waiting pods that are still to be written: namespaces take turns."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class ReportTurns(Generic[T]):
    """Items by key, of one owner each: the next one is the oldest of the owner that had its turn longest ago.

    So an owner with thousands of items keeps nobody else waiting. A key that is put again keeps its place.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str, dict[str, T]] = OrderedDict()
        self._owner: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._owner)

    def __contains__(self, key: str) -> bool:
        return key in self._owner

    def get(self, key: str) -> T | None:
        """The item with this key, if there is one."""
        owner = self._owner.get(key)
        return self._lines[owner][key] if owner is not None else None

    def put(self, owner: str, key: str, item: T) -> None:
        """Add an item, or replace that with the same key."""
        if self._owner.setdefault(key, owner) != owner:
            self.drop(key)
            self._owner[key] = owner
        self._lines.setdefault(owner, {})[key] = item

    def drop(self, key: str) -> None:
        """Remove the item with this key, if there is one."""
        owner = self._owner.pop(key, None)
        if owner is not None:
            line = self._lines[owner]
            del line[key]
            if not line:
                del self._lines[owner]

    def next(self) -> tuple[str, T]:
        """The key and item whose turn it is. Raises StopIteration where there is none."""
        line = next(iter(self._lines.values()))
        return next(iter(line.items()))

    def had_turn(self) -> None:
        """The owner of `next` had its turn: others go first."""
        self._lines.move_to_end(next(iter(self._lines)))
