"""Show how far a running program is, and end it with all its children when this process is interrupted.

On a terminal, one line is rewritten; elsewhere, a line is printed every few seconds. The set-up uses this
module before any package is installed, so it needs the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol, TextIO

# A reader should not have to wait longer than 5 s for a sign of life.
EVERY_SECONDS = 4.0
POLL_SECONDS = 0.25
KEPT_LINES = 400
GRACE_SECONDS = 5.0


class Line:
    """The line of progress on standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._shown: float | None = None

    def show(self, text: str) -> None:
        """Replace the line on a terminal; elsewhere print it, unless the last one is less than 4 s old."""
        now = time.monotonic()
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{text[:width]}")
            self._stream.flush()
        elif self._shown is None or now - self._shown >= EVERY_SECONDS:
            print(text, file=self._stream, flush=True)
        else:
            return
        self._shown = now

    def end(self, text: str | None = None) -> None:
        """Remove the line from a terminal, and print `text` as the last word."""
        if self._terminal and self._shown is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._shown = None
        if text:
            print(text, file=self._stream, flush=True)


class Report(Protocol):
    """What is known of a running program by the lines that it has printed."""

    def notice(self, line: str) -> None:
        """Take a line of the program's output."""

    def state(self, seconds: float) -> str:
        """How far it is after so many seconds: "412 of 640 packages, 63 s"."""


@dataclass(frozen=True, slots=True)
class Step:
    """A program whose lines do not matter."""

    name: str

    def notice(self, line: str) -> None:
        """Nothing is learned from it."""

    def state(self, seconds: float) -> str:
        return f"{self.name}, {seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code, its last lines, and how long it ran."""

    code: int
    lines: tuple[str, ...]
    seconds: float


class TookTooLong(Exception):
    """A program that was ended because it ran for more than `seconds`."""

    def __init__(self, program: str, seconds: float) -> None:
        self.program = program
        self.seconds = seconds
        super().__init__(f"{program} took more than {seconds:.0f} s")


def watch(
    command: Sequence[str],
    report: Report,
    line: Line,
    *,
    what: str,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float = 3600.0,
) -> Ended:
    """Run `command` to its end and show "WHAT: STATE". Raises TookTooLong, OSError."""
    started = time.monotonic()
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    with _INTERRUPTS.deferred():
        # A session of its own: its processes can be ended together.
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        reader = threading.Thread(target=_read, args=(process, lines, report), daemon=True)
        reader.start()
    try:
        while True:
            _INTERRUPTS.check()
            seconds = time.monotonic() - started
            line.show(f"{what}: {report.state(seconds)}")
            if seconds > timeout:
                raise TookTooLong(command[0], timeout)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(POLL_SECONDS)
                break
    except BaseException:
        _end(process)
        raise
    finally:
        line.end()
    reader.join()
    return Ended(code, tuple(lines), time.monotonic() - started)


def _read(process: subprocess.Popen[str], lines: deque[str], report: Report) -> None:
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            if text := line.rstrip():
                lines.append(text)
                report.notice(text)


def _end(process: subprocess.Popen[str]) -> None:
    """End the program and its children; by force where they do not go."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)


class _Interrupts:
    """Signals that interrupt this process, later where a program has started that nobody could end yet."""

    def __init__(self) -> None:
        self._deferring = False
        self._deferred = False

    def interrupt(self, _sign: int, _frame: FrameType | None) -> None:
        if not self._deferring:
            raise KeyboardInterrupt
        self._deferred = True

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Within it, signals wait; `check` must follow."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has waited."""
        if self._deferred:
            self._deferred = False
            raise KeyboardInterrupt


_INTERRUPTS = _Interrupts()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP interrupt this process as Ctrl-C does, so that it cleans up."""
    # A shell's background jobs ignore Ctrl-C; make's children shall not.
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {sign: signal.signal(sign, _INTERRUPTS.interrupt) for sign in signs}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
