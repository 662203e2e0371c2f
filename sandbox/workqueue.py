"""Work queues of controllers and kubelet: unique keys handled by one task, and keys that become due later."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

_BATCH: Final = 32
"""Number of keys handled before other tasks of the event loop run."""

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """Calls `handle` for every key; a key that is added several times before it is handled is handled once.

    `handle` must not raise: an exception ends the task.
    """

    def __init__(self, handle: Callable[[Key], Awaitable[None]], name: str) -> None:
        self._handle = handle
        self._name = name
        self._keys: deque[Key] = deque()
        self._queued: set[Key] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task on the running event loop."""
        self._task = asyncio.create_task(self._drain(), name=self._name)

    async def stop(self) -> None:
        """Cancel the task; queued keys are dropped."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def put(self, key: Key) -> None:
        """Queue a key; a queued key is not queued again."""
        if key not in self._queued:
            self._queued.add(key)
            self._keys.append(key)
            self._wake.set()

    async def _drain(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._keys:
                for _ in range(min(_BATCH, len(self._keys))):
                    key = self._keys.popleft()
                    self._queued.discard(key)
                    await self._handle(key)
                await asyncio.sleep(0)


Item = TypeVar("Item")


class DelayQueue(Generic[Item]):
    """Calls `due(item)` once for each item after its delay, in order of due time, with one timer for all."""

    def __init__(self, due: Callable[[Item], None]) -> None:
        self._due = due
        self._heap: list[tuple[float, int, Item]] = []
        self._pushed = 0
        self._timer: asyncio.TimerHandle | None = None

    def push(self, delay: float, item: Item) -> None:
        """Call `due(item)` in `delay` seconds."""
        self._pushed += 1
        heapq.heappush(self._heap, (asyncio.get_running_loop().time() + delay, self._pushed, item))
        if self._heap[0][1] == self._pushed:
            self._set_timer()

    def _set_timer(self) -> None:
        self.cancel()
        if self._heap:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        moment = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= moment:
            self._due(heapq.heappop(self._heap)[2])
        self._set_timer()

    def cancel(self) -> None:
        """Stop the timer; no item becomes due until the next push."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
