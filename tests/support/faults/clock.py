"""Runs the scheduler on a wall clock that somebody else can step: FILE holds the shift in seconds.

`python clock.py FILE [flags of muster-scheduler]`. Only the wall clock is shifted, as by an operator or
a time daemon; monotonic clocks go on.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path

_DOUBLE = struct.Struct("d")


class Shift:
    """The other side of FILE: `step(seconds)` sets how far the clock is off from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.step(0.0)

    def step(self, seconds: float) -> None:
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.write(_DOUBLE.pack(seconds))

    @property
    def program(self) -> tuple[str, str]:
        """What Python runs in place of the scheduler."""
        return __file__, str(self.path)


def main() -> None:
    """Shift the clock before anything of the scheduler is imported, then be the scheduler."""
    with Path(sys.argv[1]).open("rb") as file:
        shift = mmap.mmap(file.fileno(), _DOUBLE.size, access=mmap.ACCESS_READ)
    real = time.time
    time.time = lambda: real() + _DOUBLE.unpack_from(shift)[0]
    sys.argv[1:] = sys.argv[2:]
    from scheduler_core.app.__main__ import main as scheduler

    scheduler()


if __name__ == "__main__":
    main()
