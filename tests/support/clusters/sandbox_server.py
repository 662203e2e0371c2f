"""The sandbox's API server in this process: in a thread with its own event loop, on a free port."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sandbox.api.server import ApiServer, ServerOptions
from tests.support.loop_thread import LoopThread

Result = TypeVar("Result")
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0


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
        self._loop = LoopThread("sandbox")
        self.api: ApiServer

    def run(self, job: Coroutine[Any, Any, Result], timeout: float = _START_SECONDS) -> Result:
        """Run a coroutine on the server's loop and wait for its result."""
        return self._loop.run(job, timeout)

    def __enter__(self) -> SandboxServer:
        self._loop.start()
        try:
            self.run(self._start())
        except BaseException:
            self._loop.end()
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
        self._loop.accept_no_more()
        self.run(self._stop(), _STOP_SECONDS)
        self._loop.end()

    async def _stop(self) -> None:
        await self.api.stop()

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
