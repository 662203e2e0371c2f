"""Our programs without their imports: a process that has imported one forks for each start of it.

Imports are most of what the start of a scheduler costs. That a program starts by itself, tests of whole
installations show (`tests/chart/live`, `tests/support/clusters/stack.py`). The other side is `fork_server`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.clusters import fork_server
from tests.support.clusters.fork_server import NUMBER, received
from tests.support.durations import LASTING

# What a program imports, without its own module: it is run, not imported.
IMPORTS: Final[Mapping[str, Sequence[str]]] = {
    "scheduler_core.app": ("scheduler_core.app.config_cli", "scheduler_core.app.process"),
}
STOP_SECONDS: Final = 60.0


class Forked:
    """One started program, with what tests use of a `Popen`."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        return self._await(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or the negative number of a signal. Raises TimeoutExpired."""
        code = self._await(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _await(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            said = os.read(self._ended, NUMBER.size)
            os.close(self._ended)
            # Nothing is said where the process that forks was killed.
            self.returncode = NUMBER.unpack(said)[0] if said else -signal.SIGKILL
        return self.returncode


class Parent:
    """This side of a process that forks one program."""

    def __init__(self, module: str) -> None:
        self._link, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    fork_server.__name__,
                    str(there.fileno()),
                    module,
                    *IMPORTS.get(module, ()),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                cwd=Path(__file__).parents[3],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        LASTING.add(self._process.pid)
        atexit.register(self.close)

    def start(self, arguments: Sequence[str], output: int) -> Forked:
        request = {"arguments": list(arguments), "environment": dict(os.environ), "folder": os.getcwd()}
        body = json.dumps(request).encode()
        ended, ends = os.pipe()
        try:
            socket.send_fds(self._link, [NUMBER.pack(len(body))], [output, ends])
            self._link.sendall(body)
        finally:
            os.close(ends)
        (pid,) = NUMBER.unpack(received(self._link, NUMBER.size))
        return Forked(pid, ended)

    def close(self) -> None:
        """End it, and what it has started."""
        self._link.close()
        LASTING.discard(self._process.pid)
        self._process.wait(STOP_SECONDS)


# By process, too: a fork of this one, such as a mutant's, has faults and an environment of its own.
_parents: Final[dict[tuple[int, str], Parent]] = {}


def start(module: str, arguments: Sequence[str], output: int) -> Forked:
    """Run a module with arguments; what it prints goes to the file `output`."""
    place = (os.getpid(), module)
    if place not in _parents:
        _parents[place] = Parent(module)
    return _parents[place].start(arguments, output)
