"""Forked processes with limits, a few at a time."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

MEMORY = 4 << 30


class Pool:
    """Runs functions in forked processes, `jobs` at a time, each with a limit of seconds."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._running: dict[int, tuple[float, Callable[[bool], None]]] = {}

    def run(self, work: Callable[[], None], seconds: float, done: Callable[[bool], None]) -> None:
        """Start `work` as soon as there is room; `done` is told whether it came to an end by itself."""
        self.make_room()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            _alone(work, seconds)
        self._running[child] = (time.monotonic() + 10 * seconds, done)

    def make_room(self) -> None:
        """Wait until there is room."""
        while len(self._running) >= self._jobs:
            self._reap()

    def finish(self) -> None:
        """Wait for all that runs."""
        while self._running:
            self._reap()

    def stop(self) -> None:
        """End all that runs."""
        for child in self._running:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)

    def _reap(self) -> None:
        time.sleep(0.005)
        for child, (deadline, done) in list(self._running.items()):
            ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended or time.monotonic() > deadline:
                # It, or what its tests have started and left behind.
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                del self._running[child]
                done(status == 0)


def _alone(work: Callable[[], None], seconds: float) -> None:
    """Do the work of a child: in a process group of its own, silent, with limits, and end."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        limit = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        work()
    finally:
        os._exit(0)
