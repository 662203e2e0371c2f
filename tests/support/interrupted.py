"""An interrupted run of tests ends within two seconds, with every program that its tests have started.

Ctrl-C reaches the processes of the terminal's group, once, and not the programs that lead sessions of their
own; a signal to the run alone reaches none of them. So the process that starts the run tells its workers,
lets the ends of fixtures run, kills the programs that still run after a moment, and then the workers.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
PROGRAMS_SECONDS: Final = 0.8
WORKERS_SECONDS: Final = 1.7
# In the environment of every process of the run, also of those whose parents have ended.
_VARIABLE: Final = "MUSTER_TEST_RUN"


class Interruption:
    """What a signal does to one process of the run: the one that starts it, or a worker of xdist."""

    def __init__(self, *, worker: bool, has_workers: bool) -> None:
        self._worker = worker
        self._has_workers = has_workers
        self._began = 0.0

    def install(self) -> None:
        """Handle the signals from now on."""
        if not self._worker:
            os.environ[_VARIABLE] = uuid.uuid4().hex
        for number in SIGNALS:
            signal.signal(number, self._arrived)

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        # A worker may be told twice: by the terminal, and by the process that has started it.
        if self._began and time.monotonic() - self._began < WORKERS_SECONDS:
            return
        self._began = time.monotonic()
        if not self._worker:
            workers = _children(os.getpid()) if self._has_workers else frozenset()
            _send(workers, signal.SIGINT)
            threading.Thread(target=_end_all, args=(self._began, workers), daemon=True).start()
        raise KeyboardInterrupt


def _end_all(began: float, workers: frozenset[int]) -> None:
    """Until this process ends, since the ends of fixtures may start further programs."""
    mark = f"{_VARIABLE}={os.environ[_VARIABLE]}".encode()
    time.sleep(PROGRAMS_SECONDS)
    while True:
        spared = workers if time.monotonic() - began < WORKERS_SECONDS else frozenset()
        _send(_processes(mark) - spared, signal.SIGKILL)
        # Looking at all processes takes time from the ends of fixtures.
        time.sleep(0.1 if spared else 0.5)


def _processes(mark: bytes) -> frozenset[int]:
    """The processes with this mark, and all that descends from them or from this process; not this one."""
    parents = dict(_parents())
    members = {os.getpid(), *(process for process in parents if mark in _environment(process))}
    while more := {child for child, parent in parents.items() if parent in members} - members:
        members |= more
    return frozenset(members - {os.getpid()})


def _children(process: int) -> frozenset[int]:
    return frozenset(child for child, parent in _parents() if parent == process)


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent; none where there is no /proc."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            yield int(status.parent.name), int(status.read_text().rpartition(")")[2].split()[1])


def _environment(process: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return []


def _send(processes: frozenset[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
