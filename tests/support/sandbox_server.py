"""The sandbox's API server in this process: in a thread with its own event loop, on a free port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sandbox.server import ApiServer, ServerOptions

Result = TypeVar("Result")
_START_SECONDS = 10.0
_STOP_SECONDS = 10.0


class SandboxServer:
    """`with SandboxServer() as server:` gives `.url`, `.token`, `.ca_file` and `.kubeconfig`.

    `prepare(api)` runs on the server's loop after the start: the place to attach admission and controllers.
    """

    def __init__(
        self,
        options: ServerOptions | None = None,
        prepare: Callable[[ApiServer], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._options = options
        self._prepare = prepare
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox", daemon=True)
        self.api: ApiServer

    def run(self, job: Coroutine[Any, Any, Result], timeout: float = _START_SECONDS) -> Result:
        """Run a coroutine on the server's loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(job, self._loop).result(timeout)

    def __enter__(self) -> SandboxServer:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end_loop()
            raise
        return self

    async def _start(self) -> None:
        self.api = ApiServer(self._options)
        await self.api.start()
        if self._prepare:
            await self._prepare(self.api)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self.api.stop(), _STOP_SECONDS)
        self._end_loop()

    def _end_loop(self) -> None:
        self.run(_end_tasks(), _STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)
        self._loop.close()

    @property
    def url(self) -> str:
        """`https://127.0.0.1:port`."""
        return self.api.url

    @property
    def token(self) -> str:
        """The bearer token."""
        return self.api.token

    @property
    def ca_file(self) -> Path:
        """PEM of the authority that signed the serving certificate."""
        return self.api.ca_file

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for kubectl and client libraries."""
        return self.api.kubeconfig


async def _end_tasks() -> None:
    """End what still runs, as asyncio.run does: clients that went away may have left watches open."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
