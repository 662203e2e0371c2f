"""Change logs: which nodes changed since somebody last looked, at a cost of what changed."""

from __future__ import annotations

from typing import Final

_KEEP: Final = 65536


class ChangeLog:
    """An append-only list of slots. A reader keeps the position up to which it has read."""

    def __init__(self) -> None:
        self._start = 0
        self._slots: list[int] = []

    @property
    def position(self) -> int:
        """Position after the newest entry."""
        return self._start + len(self._slots)

    def append(self, slot: int) -> None:
        """Record that a slot changed."""
        if len(self._slots) >= 2 * _KEEP:
            del self._slots[:_KEEP]
            self._start += _KEEP
        self._slots.append(slot)

    def since(self, position: int) -> list[int] | None:
        """Slots changed from a position on (with repeats), or None if the log no longer reaches back."""
        if position < self._start:
            return None
        return self._slots[position - self._start :]
