"""Journal of the object store: every write goes to the disk, many of them at once, before it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Final

from sandbox.persistence.kept_objects import Generation, write_generation
from sandbox.persistence.records import Record, line_of
from sandbox.store.object_store import LogEntry, ObjectStore, Version
from scheduler_core.errors import MusterError

LIMIT: Final = 64 << 20
"""Bytes of writes after which all objects are written anew, and these writes are dropped."""


class JournalFailed(MusterError):
    """The writes cannot be stored: the folder, and the cause."""

    def __init__(self, folder: str, problem: str) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(folder, problem)

    def __str__(self) -> str:
        return f"{self.folder}: cannot keep the objects: {self.problem}"


class Journal:
    """Records the writes of a store, from `start` to `stop`, in the files of a generation.

    All calls belong to the store's event loop; one thread writes. A write that has not reached the disk when
    the process dies is lost; `settled` waits until none of the writes so far can be.
    """

    def __init__(self, generation: Generation, store: ObjectStore, *, limit: int = LIMIT) -> None:
        self._generation = generation
        self._store = store
        self._limit = limit
        self._lines: list[bytes] = []
        self._recorded = 0
        self._stored = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "journal")
        self._file: BinaryIO | None = None
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Record all writes from now on."""
        self._file = self._generation.writes.open("ab")
        self._size = self._file.tell()
        self._store.recorder = self._record
        self._task = asyncio.create_task(self._write_all(), name="journal")

    async def stop(self) -> None:
        """Store what was recorded, and end. Writes after this call are not recorded."""
        self._store.recorder = None
        if self._task:
            if not self._task.done():
                with contextlib.suppress(JournalFailed):
                    await self.settled()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()
        if self._file:
            self._file.close()

    async def ended(self) -> None:
        """Wait until the journal fails; raises JournalFailed."""
        assert self._task is not None
        await asyncio.shield(self._task)

    async def settled(self) -> None:
        """Wait until all writes so far are on the disk. Raises JournalFailed."""
        if self._stored >= self._recorded:
            return
        if self._task is not None and self._task.done():
            self._task.result()
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((self._recorded, done))
        await done

    def _record(self, storage: str, entry: LogEntry) -> None:
        version = entry.new
        if entry.event == "DELETED":
            record = Record(entry.rv, storage, delete=(version.namespace, version.name))
        else:
            record = Record(entry.rv, storage, put=version.obj)
        self._lines.append(line_of(record))
        self._recorded += 1
        self._wake.set()

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                lines, self._lines = self._lines, []
                count = self._recorded
                full = self._size > self._limit
                # The objects are those after exactly these lines.
                everything = list(self._store.everything()) if full else []
                revision = self._store.revision
                await loop.run_in_executor(self._thread, self._append, lines)
                if full:
                    await loop.run_in_executor(self._thread, self._begin_generation, everything, revision)
                self._release(count)
        except OSError as error:
            failure = JournalFailed(str(self._generation.folder), error.strerror or str(error))
            self._fail(failure)
            raise failure from None

    def _release(self, count: int) -> None:
        self._stored = count
        while self._waiting and self._waiting[0][0] <= count:
            waiter = self._waiting.popleft()[1]
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: JournalFailed) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()[1]
            if not waiter.done():
                waiter.set_exception(error)

    # On the thread

    def _append(self, lines: Iterable[bytes]) -> None:
        assert self._file is not None
        data = b"".join(lines)
        self._file.write(data)
        self._file.flush()
        os.fdatasync(self._file.fileno())
        self._size += len(data)

    def _begin_generation(self, everything: list[tuple[str, Version]], revision: int) -> None:
        assert self._file is not None
        following = Generation(self._generation.folder, self._generation.number + 1)
        write_generation(following, everything, revision)
        self._file.close()
        self._file = following.writes.open("ab")
        self._size = self._file.tell()
        self._generation = following
