"""A reader of the log that is late, gone or never was keeps nobody waiting."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from scheduler_core.logs.lines import IMPATIENT_SECONDS, LineWriter

LINE = "x" * 100


class Pipe:
    """A small pipe; `text` is all that has come, taken out of it."""

    def __init__(self, opened: ExitStack) -> None:
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 14)
        os.set_blocking(reading, False)
        self.reading = reading
        self.stream = opened.enter_context(os.fdopen(writing, "wb", buffering=0))
        self._reader = opened.enter_context(os.fdopen(reading, "rb", buffering=0))

    def text(self) -> str:
        found = b""
        with suppress(BlockingIOError):
            while part := os.read(self.reading, 1 << 16):
                found += part
        return found.decode()

    def abandon(self) -> None:
        """Nobody reads it any more."""
        self._reader.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with ExitStack() as opened:
        yield Pipe(opened)


def test_lines_come_whole_and_in_order(pipe: Pipe) -> None:
    lines = LineWriter(pipe.stream)
    for number in range(3):
        lines.write(f"line {number} \ud800")
    assert pipe.text().splitlines() == [f"line {number} \\ud800" for number in range(3)]
    assert lines.dropped == 0


def test_a_pipe_without_a_reader_delays_once_and_counts_dropped_lines(pipe: Pipe) -> None:
    now = [0.0]
    lines = LineWriter(pipe.stream, lambda: now[0])
    began = time.monotonic()
    for number in range(1000):
        lines.write(f"{number} {LINE}")
    took = time.monotonic() - began
    assert lines.dropped >= 800
    assert took < 5.0, "a pause each would be 20 s"
    taken = pipe.text()
    assert taken.startswith(f"0 {LINE}\n1 {LINE}\n")
    now[0] = IMPATIENT_SECONDS
    missing = lines.dropped
    lines.write("after")
    assert pipe.text().strip().splitlines() == [
        "after",
        f"{missing} lines before this line were dropped: the reader was too slow",
    ]
    lines.write("and after")
    assert pipe.text() == "and after\n"


def test_a_line_from_within_a_line_is_dropped_and_waits_for_nothing(pipe: Pipe) -> None:
    """The garbage collector and signals have a thread that writes a line log another one."""

    def clock() -> float:
        lines.write("within")
        return time.monotonic()

    lines = LineWriter(pipe.stream, clock)
    # More than fits: the clock is asked.
    thread = threading.Thread(target=lines.write, args=("y" * 40_000,), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert "within" not in pipe.text()
    assert lines.dropped >= 2
    lines.write("next")
    assert "next\n" in pipe.text()


def test_output_after_a_torn_line_starts_a_new_line(pipe: Pipe) -> None:
    lines = LineWriter(pipe.stream)
    lines.write("y" * 40_000)
    assert (lines.dropped, set(pipe.text())) == (1, {"y"})
    lines.write("next")
    assert pipe.text().splitlines()[:2] == ["", "next"]


def test_a_slow_reader_is_waited_for_a_moment(pipe: Pipe) -> None:
    """Where there is no room, the clock is asked first whether to wait: here the reader comes just then."""
    came: list[str] = []

    def clock() -> float:
        came.append(pipe.text())
        return 0.0

    lines = LineWriter(pipe.stream, clock)
    lines.write("y" * 40_000)
    came.append(pipe.text())
    assert "".join(came) == "y" * 40_000 + "\n"
    assert lines.dropped == 0


def test_after_a_line_in_vain_no_line_waits_for_a_second(pipe: Pipe) -> None:
    now, asked = 0.0, 0

    def clock() -> float:
        nonlocal asked
        asked += 1
        return now

    lines = LineWriter(pipe.stream, clock)
    lines.write("y" * 40_000)
    assert (lines.dropped, asked) == (1, 2)
    now = IMPATIENT_SECONDS - 0.001
    began = time.process_time()
    for _ in range(3):
        lines.write("in vain")
    assert (lines.dropped, asked) == (4, 8)
    assert time.process_time() - began < 60


def test_a_reader_that_is_gone_loses_lines_and_nothing_else(pipe: Pipe) -> None:
    lines = LineWriter(pipe.stream)
    pipe.abandon()
    lines.write("one")
    lines.write("two")
    assert lines.dropped == 2


@pytest.mark.parametrize("stream", [None, io.StringIO()], ids=["none", "no descriptor"])
def test_no_stream_takes_nothing(stream: Any) -> None:
    lines = LineWriter(stream)
    lines.write("one")
    assert lines.dropped == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EBADF, errno.EAGAIN])
def test_errors_of_the_descriptor_lose_the_line(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def write(descriptor: int, data: bytes) -> int:
        raise OSError(number, "no")

    lines = LineWriter(pipe.stream)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        lines.write("one")
    assert lines.dropped == 1
    lines.write("two")
    assert pipe.text().startswith("two\n")


PROGRAM = """
import logging, os, socket
from scheduler_core.logs import dropped_lines, fields, set_up
set_up(1, "json")
pair = socket.socketpair()
log = logging.getLogger("muster")
for number in range(3000):
    log.info("line %s", number, extra=fields(pad="x" * 100))
log.info("%d", "no number")
try:
    raise ValueError("cause")
except ValueError:
    log.exception("with a traceback")
pair[1].setblocking(False)
try:
    leaked = pair[1].recv(10)
except BlockingIOError:
    leaked = b""
beyond = min(part.fileno() for part in pair) > 2
open(os.environ["OUT"], "w").write(f"{dropped_lines() > 0} {beyond} {leaked}")
"""


@pytest.mark.parametrize("standard_error", ["full", "gone", "closed", "no space"])
def test_a_program_goes_on_whatever_its_standard_error_is(standard_error: str, tmp_path: Any) -> None:
    """A process of its own, as its interpreter, too, must not care."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM]
    if standard_error == "closed":
        command = ["sh", "-c", 'exec "$0" "$@" 2>&-', *command]
    with ExitStack() as opened:
        reading, writing = os.pipe()
        if standard_error == "no space":
            os.close(writing)
            writing = os.open("/dev/full", os.O_WRONLY)
        opened.callback(os.close, writing)
        if standard_error == "gone":
            os.close(reading)
        else:
            opened.callback(os.close, reading)
        environment = {**os.environ, "OUT": str(out)}
        done = subprocess.run(command, stderr=writing, env=environment, timeout=60, check=False)
    assert done.returncode == 0
    assert out.read_text() == "True True b''"
