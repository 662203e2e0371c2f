"""Many future moments behind one timer of the event loop."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """Calls `due(item)` once per pushed item, in the order of their moments (seconds of the loop's clock)."""

    def __init__(self, due: Callable[[Item], None]) -> None:
        self._due = due
        self._heap: list[tuple[float, int, Item]] = []
        self._pushed = 0
        self._timer: asyncio.TimerHandle | None = None

    def push(self, delay: float, item: Item) -> None:
        """Fire in `delay` seconds."""
        self._pushed += 1
        heapq.heappush(self._heap, (asyncio.get_running_loop().time() + delay, self._pushed, item))
        if self._heap[0][1] == self._pushed:
            self._arm()

    def _arm(self) -> None:
        self.cancel()
        if self._heap:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        moment = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= moment:
            self._due(heapq.heappop(self._heap)[2])
        self._arm()

    def cancel(self) -> None:
        """Stop the timer; nothing fires until the next push."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
