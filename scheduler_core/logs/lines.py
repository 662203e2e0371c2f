"""Lines to a file descriptor that may be full, closed or gone: nobody waits for whoever reads them."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

# A pipe that is ready takes so much at once without waiting (PIPE_BUF).
_PIECE: Final = 4096
# A reader that is a moment late costs no line. One that was later than this is not waited for again so soon.
PATIENCE_SECONDS: Final = 0.02
IMPATIENT_SECONDS: Final = 1.0


class Lines:
    """Writes whole lines; what is not taken is dropped and counted in `dropped`. Thread-safe.

    `stream` is one of the process's own (sys.stderr); None, or one without a descriptor, takes nothing.
    """

    def __init__(self, stream: Any, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.dropped = 0
        self._told = 0
        self._torn = False
        self._patient_from = 0.0
        self._monotonic = monotonic
        # One that the same thread may take twice: the collector or a signal may have it log within a line.
        self._lock = threading.RLock()
        self._writing = False
        self._descriptor = _descriptor(stream)
        self._ready = select.poll()
        if self._descriptor >= 0:
            self._ready.register(self._descriptor, select.POLLOUT)

    def write(self, line: str) -> None:
        """Write a line, or drop it. Raises nothing but MemoryError."""
        with self._lock:
            if self._writing:
                # In the middle of another line it would be part of that.
                self.dropped += 1
                return
            self._writing = True
            try:
                self._write(line)
            finally:
                self._writing = False

    def _write(self, line: str) -> None:
        missing = self.dropped - self._told
        said = f"\n{line}" if self._torn else line
        if missing:
            said = f"{said}\n{missing} lines before this one were dropped: nobody took them"
        if self._put(f"{said}\n".encode(errors="backslashreplace")):
            self._told += missing
        else:
            self.dropped += 1

    def _put(self, data: bytes) -> bool:
        """Whether all of it was taken."""
        if self._descriptor < 0:
            return False
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            written = 0
            with suppress(OSError):
                written = os.write(self._descriptor, piece) if self._takes() else 0
            if written < len(piece):
                # What comes next must not look like the end of this line.
                self._torn = self._torn or start + written > 0
                return False
        self._torn = False
        return True

    def _takes(self) -> bool:
        """Whether a piece can be written without waiting; waits a moment, unless that did not help before."""
        if self._ready.poll(0):
            return True
        if self._monotonic() >= self._patient_from and self._ready.poll(PATIENCE_SECONDS * 1000):
            return True
        self._patient_from = self._monotonic() + IMPATIENT_SECONDS
        return False


def hold_standard_descriptors() -> None:
    """Open what is closed of 0, 1 and 2 to nothing: a socket in its place would be sent what is printed."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)


def _descriptor(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return -1
