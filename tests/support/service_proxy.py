"""What a Service is to its clients: one address, and behind it whichever replica can be connected to."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType

_SECONDS = 10.0


class ServiceProxy:
    """`with ServiceProxy() as service:`; `service.ports` are the replicas, in turn, one per connection."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.port = 0
        self._turn = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="service", daemon=True)
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> ServiceProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        """End all connections, those that were only just accepted too, and wait for all sockets to close."""
        self._server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(one.wait_closed() for one in self._writers), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self.ports)):
            ports, self._turn = list(self.ports), self._turn + 1
            with suppress(OSError, ZeroDivisionError):
                there, back = await asyncio.open_connection("127.0.0.1", ports[self._turn % len(ports)])
                self._writers.add(back)
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
