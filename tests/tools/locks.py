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
def held(path: Path, line: Line, work: str) -> Iterator[None]:
    """Hold the lock; meanwhile others show "another process WORK (process 4711), waiting, 12 s"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        started = time.monotonic()
        while not _taken(file):
            file.seek(0)
            holder = file.read().strip() or "unknown"
            line.show(
                f"another process {work} (process {holder}), waiting, {time.monotonic() - started:.0f} s"
            )
            time.sleep(POLL_SECONDS)
        line.end()
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _taken(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
