"""A process that has imported a program and forks for each start of it; `forks.py` is the other side.

    python -m tests.support.clusters.fork_server FD MODULE [IMPORT...]

For each request on the socket FD, a fork runs the module as `python -m` does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from typing import Any, Final

NUMBER: Final = struct.Struct("=i")


def received(link: socket.socket, size: int) -> bytes:
    """So many bytes. Raises EOFError if the other side ends before."""
    found = b""
    while len(found) < size:
        piece = link.recv(size - len(found))
        if not piece:
            raise EOFError("the other side has ended")
        found += piece
    return found


class _Forks:
    """The process that forks: it starts programs, and says how they ended."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._ends: dict[int, int] = {}
        self._woken, self._wakes = os.pipe()
        for end in (self._woken, self._wakes):
            os.set_blocking(end, False)

    def serve(self) -> list[str] | None:
        """In each fork the arguments of its program; None in this process when nobody asks any more."""
        signal.set_wakeup_fd(self._wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl-C reaches the terminal's whole group; who started this process ends it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([self._link, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 1 << 12)
                self._tell_ends()
            if self._link in ready:
                head, files, _, _ = socket.recv_fds(self._link, NUMBER.size, 2)
                if not head:
                    self._kill_all()
                    return None
                request = json.loads(received(self._link, NUMBER.unpack(head)[0]))
                if (pid := os.fork()) == 0:
                    return self._become(request, *files)
                self._ends[pid] = files[1]
                os.close(files[0])
                self._link.sendall(NUMBER.pack(pid))

    def _become(self, request: dict[str, Any], output: int, own: int) -> list[str]:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._link.close()
        for number in (sys.stdout.fileno(), sys.stderr.fileno()):
            os.dup2(output, number)
        for number in (output, own, self._woken, self._wakes, *self._ends.values()):
            os.close(number)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        arguments: list[str] = request["arguments"]
        return arguments

    def _tell_ends(self) -> None:
        while self._ends:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            end = self._ends.pop(pid)
            os.write(end, NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os.close(end)

    def _kill_all(self) -> None:
        for pid in self._ends:
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    link, module, *imports = sys.argv[1:]
    for name in imports:
        importlib.import_module(name)
    # Forks share the memory of what is never looked at.
    gc.collect()
    gc.freeze()
    arguments = _Forks(socket.socket(fileno=int(link))).serve()
    if arguments is not None:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
