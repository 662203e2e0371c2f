"""Writer of lines to a file descriptor that may be full, closed or gone; never blocks for long."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

# A pipe that is ready takes this many bytes at once without blocking (PIPE_BUF).
_PIECE: Final = 4096
# How long a write waits for a slow reader, in seconds; after a timeout no write waits for IMPATIENT_SECONDS.
PATIENCE_SECONDS: Final = 0.02
IMPATIENT_SECONDS: Final = 1.0


class LineWriter:
    """Writes whole lines. Lines that cannot be written are dropped and counted in `dropped`. Thread-safe.

    `stream` is a stream of the process (sys.stderr); None, or one without a descriptor, takes nothing.
    """

    def __init__(self, stream: Any, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.dropped = 0
        self._told = 0
        self._line_is_cut = False
        self._patient_from = 0.0
        self._monotonic = monotonic
        # Reentrant: the garbage collector or a signal may log while the same thread writes a line.
        self._lock = threading.RLock()
        self._writing = False
        self._descriptor = _descriptor(stream)
        self._ready = select.poll()
        if self._descriptor >= 0:
            self._ready.register(self._descriptor, select.POLLOUT)

    def write(self, line: str) -> None:
        """Write a line, or drop it. Raises only MemoryError."""
        with self._lock:
            if self._writing:
                # It would become part of the line that is being written.
                self.dropped += 1
                return
            self._writing = True
            try:
                self._write(line)
            finally:
                self._writing = False

    def _write(self, line: str) -> None:
        missing = self.dropped - self._told
        text = f"\n{line}" if self._line_is_cut else line
        if missing:
            text = f"{text}\n{missing} lines before this line were dropped: the reader was too slow"
        if self._put(f"{text}\n".encode(errors="backslashreplace")):
            self._told += missing
        else:
            self.dropped += 1

    def _put(self, data: bytes) -> bool:
        """Whether all bytes were written."""
        if self._descriptor < 0:
            return False
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            written = 0
            with suppress(OSError):
                written = os.write(self._descriptor, piece) if self._takes() else 0
            if written < len(piece):
                # The next line must start on a new line.
                self._line_is_cut = self._line_is_cut or start + written > 0
                return False
        self._line_is_cut = False
        return True

    def _takes(self) -> bool:
        """Whether a piece can be written now; waits for a moment, unless waiting failed recently."""
        if self._ready.poll(0):
            return True
        if self._monotonic() >= self._patient_from and self._ready.poll(PATIENCE_SECONDS * 1000):
            return True
        self._patient_from = self._monotonic() + IMPATIENT_SECONDS
        return False


def hold_standard_descriptors() -> None:
    """Open closed ones of the descriptors 0, 1 and 2 to /dev/null, so that no socket gets their numbers."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)


def _descriptor(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return -1
