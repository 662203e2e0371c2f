"""An event loop in a thread of its own, which leaves no socket behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
_SECONDS = 10.0


class LoopThread:
    """`start` it, `run` what is to be done there, and `end` it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def start(self) -> None:
        """Begin to turn."""
        self._thread.start()

    def run(self, job: Coroutine[Any, Any, Result], timeout: float = _SECONDS) -> Result:
        """Run a coroutine on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(job, self._loop).result(timeout)

    def accept_no_more(self) -> None:
        """Let nobody in from now on: asyncio loses the connections that it accepts while a server closes."""
        self.run(self._leave_newcomers())

    def end(self) -> None:
        """Cancel what still runs, close all connections, also those just accepted, and end the thread."""
        self.run(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    async def _leave_newcomers(self) -> None:
        # asyncio has no public way to its listening sockets, nor to its connections.
        held: Any = self._loop
        for key in list(held._selector.get_map().values()):  # noqa: SLF001
            reader, _ = key.data
            if reader is not None and reader._callback == held._accept_connection:  # noqa: SLF001
                self._loop.remove_reader(key.fd)
        # Those who were accepted just now get their transports.
        await asyncio.sleep(0)

    async def _settle(self) -> None:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        # A connection under TLS stays open until its client has answered; nobody waits for that here.
        while transports := self._open():
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0)

    def _open(self) -> list[Any]:
        """Connections that have a socket still; asyncio keeps them by descriptor, for itself."""
        held: Any = self._loop
        return [one for one in held._transports.values() if one._sock is not None]  # noqa: SLF001
