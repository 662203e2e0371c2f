"""A test that leaves a process behind fails, and the process is ended.

What goes on after its test takes processor time from others, is counted to one of them by chance, and what
it finds is a race. Programs that a fixture starts may serve several tests: only what a test itself starts is
looked at, and in the rooms of real programs, where one test starts anew what others go on with, only copies
of the test process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from tests.support.durations import LASTING, seconds_of

# Where programs serve several tests.
STORIES: Final = ("tests/e2e/", "tests/chart/live/", "tests/faults/", "tests/browser/", "tests/dashboards/")
# One that was told to end has this long to do so, in seconds; one that still works, this long of a processor.
PATIENCE: Final = 60.0
GOES_ON: Final = 0.5


def children(parent: int | str = "self") -> set[int]:
    """The processes that one has started and not waited for; none where the system does not tell."""
    found: set[int] = set()
    if parent == "self" and not _has_children():
        return found
    tasks = f"/proc/{parent}/task"
    # A thread, or the process, may end meanwhile. No Path, no text: a process may have a hundred threads.
    with contextlib.suppress(OSError):
        for task in os.listdir(tasks):
            with contextlib.suppress(OSError), open(f"{tasks}/{task}/children", "rb", buffering=0) as file:
                found.update(map(int, file.read().split()))
    return found


def _has_children() -> bool:
    """Whether this process has any, by one call of the system: it is asked twice for each test."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_copy(pid: int) -> bool:
    """Whether a process is a fork of this one that runs no program of its own."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
    return False


def works(pid: int) -> bool:
    """Whether a process has not ended: one that nobody has waited for costs nothing."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


class LeftBehind:
    """The plugin of a process that runs tests."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._before: set[int] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        self._before = children()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        # Where the set-up failed, nothing was called.
        before, self._before = self._before, None
        result = yield
        born = set() if before is None else children() - before - LASTING
        if item.nodeid.startswith(STORIES):
            born = {pid for pid in born if is_copy(pid)}
        if left := self._left(born):
            told = [f"{pid} ({_command(pid)})" for pid in sorted(left)]
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            pytest.fail(f"the test leaves processes behind: {', '.join(told)}", pytrace=False)
        return result

    def _left(self, born: set[int]) -> set[int]:
        """Those that go on, or have not ended for long."""
        until = time.monotonic() + self._patience
        used = {pid: seconds_of(pid) for pid in born}
        while left := {pid for pid in born if works(pid)}:
            if time.monotonic() > until or any(seconds_of(pid) - used[pid] > GOES_ON for pid in left):
                break
            time.sleep(0.01)
        return left


def _command(pid: int) -> str:
    if is_copy(pid):
        return "a copy of the test process"
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    return "it has ended now"
