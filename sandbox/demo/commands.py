"""Commands of the demo, as processes: the shell runs kubectl and its plugins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from scheduler_core.errors import MusterError

COMMAND_SECONDS: Final = 60.0
NO_BUILD: Final = "MUSTER_NO_BUILD"
"""The environment variable that forbids to build programs that are missing."""
_PLUGINS: Final = {
    "kubectl-elasticquota": "install Muster into this environment (`pip install -e .`)",
}
_KUBECTL: Final = {
    "kubectl": "install it, or run `make demo` (for real controllers `make demo-controllers`), which builds "
    f"it, or set {NO_BUILD}=1 to play without it"
}


class ToolMissing(MusterError):
    """A program that the demo runs is not on PATH."""

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        self.advice = advice
        super().__init__(name, advice)

    def __str__(self) -> str:
        return f"{self.name} is not on PATH: {self.advice}"


class NeedsKubectl(MusterError):
    """A command that only kubectl can run."""

    def __init__(self, command: str) -> None:
        self.command = command
        super().__init__(command)

    def __str__(self) -> str:
        return f"{self.command}: needs kubectl"


class CommandTooSlow(MusterError):
    """A command did not end in time."""

    def __init__(self, command: str, seconds: float) -> None:
        self.command = command
        self.seconds = seconds
        super().__init__(command, seconds)

    def __str__(self) -> str:
        return f"{self.command}: did not end within {self.seconds:.0f} s"


@dataclass(frozen=True)
class Outcome:
    """Exit code of a command, and everything that it printed."""

    code: int
    said: str


class Commands(Protocol):
    """What runs the commands of the chapters."""

    def line(self, command: str) -> str:
        """The line that is shown for a command. Raises NeedsKubectl if `run` cannot run it."""

    def run(self, command: str) -> Outcome:
        """Run a command. Raises NeedsKubectl, CommandTooSlow."""


@dataclass(frozen=True)
class CommandEnvironment:
    """Working directory and environment variables of commands."""

    folder: Path
    variables: dict[str, str]

    def run(self, command: Sequence[str]) -> Outcome:
        """Run a process; its errors are part of its output. Raises CommandTooSlow."""
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise CommandTooSlow(" ".join(command), COMMAND_SECONDS) from None
        return Outcome(done.returncode, done.stdout)


class ShellCommands:
    """Runs commands as they are written."""

    def __init__(self, environment: CommandEnvironment) -> None:
        self._environment = environment

    def line(self, command: str) -> str:
        """The command behind a prompt."""
        return f"$ {command}"

    def run(self, command: str) -> Outcome:
        """Run a command line of the shell. Raises CommandTooSlow."""
        try:
            return self._environment.run(["/bin/sh", "-c", command])
        except CommandTooSlow as error:
            raise CommandTooSlow(command, error.seconds) from None


def search_path() -> str:
    """PATH with the programs of this Python environment at its end."""
    return f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"


def kubectl_is_out_of_reach() -> bool:
    """Whether kubectl is missing and must not be built."""
    return bool(os.environ.get(NO_BUILD)) and shutil.which("kubectl", path=search_path()) is None


def require_programs(*, with_kubectl: bool) -> None:
    """Check that everything that the demo runs is on PATH. Raises ToolMissing."""
    for name, advice in {**(_KUBECTL if with_kubectl else {}), **_PLUGINS}.items():
        if shutil.which(name, path=search_path()) is None:
            raise ToolMissing(name, advice)


def command_environment(folder: Path, kubeconfig: Path, cache: Path) -> CommandEnvironment:
    """The environment of commands.

    kubectl's discovery cache depends on host and port, which another server may have used before, so it gets
    a directory of its own.
    """
    own = {
        "PATH": search_path(),
        "KUBECONFIG": str(kubeconfig),
        "KUBECACHEDIR": str(cache),
        "KUBERC": "off",
        "GOGC": "off",  # kubectl ends before its memory matters; this saves a seventh of its time
    }
    return CommandEnvironment(folder, {**os.environ, **own})
