"""One process at a time: a lock file that names its holder, and a line for those that wait."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from tests.tools.progress import POLL_SECONDS, Line


@contextlib.contextmanager
def held(path: Path, line: Line, work: str, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock; meanwhile others show "another process WORK (process 4711), waiting, 12 s".

    Holders of a shared lock wait only for one that holds it alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        started = time.monotonic()
        while not _taken(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            file.seek(0)
            holder = file.read().strip() or "unknown"
            line.show(
                f"another process {work} (process {holder}), waiting, {time.monotonic() - started:.0f} s"
            )
            time.sleep(POLL_SECONDS)
        line.end()
        if not shared:
            sign(file)
        yield


def sign(file: TextIO) -> None:
    """Write into a lock file who holds it."""
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()


def _taken(file: TextIO, operation: int) -> bool:
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
