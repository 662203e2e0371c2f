"""A queue of keys, each in it once, that one task works off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

_BATCH: Final = 32
"""Keys handled before other tasks of the loop get their turn."""

Key = TypeVar("Key", bound=Hashable)


class KeyQueue(Generic[Key]):
    """Calls `handle` for every key that was put in; one put in while it waits is handled once.

    `handle` must not raise: what it raises ends the task.
    """

    def __init__(self, handle: Callable[[Key], Awaitable[None]], name: str) -> None:
        self._handle = handle
        self._name = name
        self._keys: deque[Key] = deque()
        self._queued: set[Key] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._task = asyncio.create_task(self._drain(), name=self._name)

    async def stop(self) -> None:
        """End; keys that wait are forgotten."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def put(self, key: Key) -> None:
        """Handle this key soon; once, however often it is put in before that."""
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
