"""What a Service is to its clients: one address, and behind it whichever replica can be connected to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType

from tests.support.loop_thread import LoopThread


class ServiceProxy:
    """`with ServiceProxy() as service:`; `service.ports` are the replicas, in turn, one per connection."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.port = 0
        self._turn = 0
        self._loop = LoopThread("service")
        self._server: asyncio.Server

    def __enter__(self) -> ServiceProxy:
        self._loop.start()
        self._loop.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.accept_no_more()
        self._loop.run(self._stop())
        self._loop.end()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()

    def _in_turn(self) -> list[int]:
        """The ports of all replicas, beginning with the one whose turn it is."""
        at = self._turn % max(1, len(self.ports))
        return self.ports[at:] + self.ports[:at]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A turn of its own for each client: one that was refused goes on to the next replica, whatever the
        # others have tried meanwhile.
        self._turn += 1
        for port in self._in_turn():
            with suppress(OSError):
                there, back = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            return
        try:
            copies = {
                asyncio.ensure_future(_copy(reader, back)),
                asyncio.ensure_future(_copy(there, writer)),
            }
            try:
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for copy in copies:
                    copy.cancel()
                await asyncio.gather(*copies, return_exceptions=True)
        finally:
            back.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
