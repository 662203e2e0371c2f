"""Room that came free, for all whom it may help: they are tried one after the other while it lasts.

Of a hundred classes whose next pods fit a node that one pod has left, one can start. So only the foremost in
the order of the queue is tried, then who is the foremost by then of those whom the rest still helps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.waiting_table import WaitingTable
from scheduler_core.framework.hints import Reach, Room
from scheduler_core.state.events import ClusterEvent


class Concern(NamedTuple):
    """An event and a plugin that listens to it: whom it can concern of those that the plugin refused.

    `room` says what is free now, None for events that bring no room. `nominated` are uids of pods.
    """

    plugin: str
    reach: Reach
    room: Callable[[], Room | None] | None = None
    nominated: tuple[str, ...] = ()


class News:
    """Room that came with an event, the `number`th; it is over when it helps nobody any more."""

    __slots__ = ("_excluded", "_plugin", "_room", "event", "number")

    def __init__(
        self, event: ClusterEvent, number: int, plugin: str, room: Callable[[], Room | None]
    ) -> None:
        self.event = event
        self.number = number
        self._plugin = plugin
        self._room = room
        self._excluded: list[int] = []

    def exclude(self, row: int) -> None:
        """A class was asked in vain, or goes its own way now."""
        self._excluded.append(row)

    def whom(self, table: WaitingTable) -> NDArray[np.intp]:
        """int [M]: rows of classes that it may help now."""
        room = self._room()
        if room is None:
            return np.zeros(0, dtype=np.intp)
        rows = table.whom(self._plugin, room, self.number)
        if self._excluded and len(rows):
            left = np.ones(len(table.waits), dtype=np.bool_)
            left[self._excluded] = False
            rows = rows[left[rows]]
        return rows
