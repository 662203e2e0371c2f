"""Child processes of the sandbox: Muster's scheduler and webhook."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.scheduler_config import profile_names, topology_namespaces
from scheduler_core.errors import MusterError
from scheduler_core.model.names import DEFAULT_SCHEDULER, MUSTER_SCHEDULER

_STOP_SECONDS = 5.0
_LINE_LIMIT = 2**20
# On Linux the kernel ends the program with its parent, even after SIGKILL: prctl(PR_SET_PDEATHSIG, SIGTERM).
_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
_BEFORE = (sys.executable, "-ISc", _WITH_PARENT) if sys.platform == "linux" else ()

Say = Callable[[str], None]


def with_parent(command: Sequence[str]) -> list[str]:
    """The command, which the kernel ends with its parent where it can."""
    return [*_BEFORE, *command]


class ProcessEnded(MusterError):
    """A child process ended before it was stopped."""

    def __init__(self, name: str, code: int) -> None:
        self.name = name
        self.code = code
        super().__init__(name, code)

    def __str__(self) -> str:
        return f"the {self.name} ended with exit code {self.code}; see its last lines above"


def commands(kubeconfig: Path, state: Path, config: Path) -> dict[str, list[str]]:
    """Command line of each process by name. `state` is a directory for their certificates.

    `config` is the scheduler's configuration file; the webhook accepts the names of its profiles as Muster's
    schedulers. KUBECONFIG applies if the configuration names no kubeconfig.
    """
    python = [sys.executable, "-m"]
    webhook = ["--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    webhook += ["--cert-dir", str(state / "webhook"), "--drain", "0"]
    names = profile_names(config)
    # Pods that name no scheduler get `muster-scheduler` in namespaces with a quota, also where Muster is the
    # default scheduler.
    others = [name for name in names if name not in (MUSTER_SCHEDULER, DEFAULT_SCHEDULER)]
    if MUSTER_SCHEDULER not in names and DEFAULT_SCHEDULER in names:
        others.append(DEFAULT_SCHEDULER)
    webhook += [f"--other-scheduler={name}" for name in others]
    webhook += [f"--topology-namespace={namespace}" for namespace in topology_namespaces(config)]
    access = ["env", f"KUBECONFIG={kubeconfig}"]
    return {
        "webhook": [*python, "webhook", "serve", *webhook, "--register"],
        "scheduler": [*access, *python, "scheduler_core.app", "--secure-port", "0", "--config", str(config)],
    }


class ChildProcesses:
    """Child processes whose output is passed to `say` line by line.

    Processes that still run `patience` seconds after SIGTERM are killed.
    """

    def __init__(
        self, programs: Mapping[str, list[str]], say: Say, *, patience: float = _STOP_SECONDS
    ) -> None:
        self._patience = patience
        self._programs = programs
        self._say = say
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._relays: list[asyncio.Task[None]] = []

    async def _start(self) -> None:
        # Each process leads a POSIX session, so that Ctrl-C stops the children only through `_stop`.
        for name, command in self._programs.items():
            process = await asyncio.create_subprocess_exec(
                *with_parent(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_LINE_LIMIT,
                start_new_session=True,
            )
            self._running[name] = process
            self._relays.append(asyncio.create_task(self._relay(name, process)))

    async def _relay(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                continue  # the reader drops a line that exceeds the limit
            if not line:
                return
            self._say(f"{name} | {line.decode('utf-8', 'replace').rstrip()}")

    async def run(self) -> None:
        """Run until cancelled; raises ProcessEnded if a process ends. All processes are stopped on return."""
        try:
            await self._start()
            await self._watch()
        finally:
            await self._stop()

    async def _watch(self) -> None:
        waits = {asyncio.create_task(process.wait()): name for name, process in self._running.items()}
        if not waits:
            await asyncio.Event().wait()
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        first = done.pop()
        raise ProcessEnded(waits[first], first.result())

    async def _stop(self) -> None:
        for process in self._running.values():
            _send(process, signal.SIGTERM)
        # Not `asyncio.timeout`: in a cancelled task, that of Python 3.11.2 raises CancelledError when the
        # time is over, and the processes would be left behind.
        waits = [asyncio.create_task(process.wait()) for process in self._running.values()]
        if waits:
            await asyncio.wait(waits, timeout=self._patience)
        for process in self._running.values():
            _send(process, signal.SIGKILL)
        await asyncio.gather(*waits)
        await asyncio.gather(*self._relays, return_exceptions=True)
        self._running.clear()


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a process unless it has ended.

    Not `process.send_signal`: that one first asks whether the process has ended, and so takes the exit code
    from the thread that waits for it, which then warns of an unknown child.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
