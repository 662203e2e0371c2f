"""Player of the demo: prints captions, runs commands, and compares their output with the expected output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler_core.errors import MusterError

WITHIN_SECONDS: Final = 20.0
_COMMAND_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_PROGRAMS: Final = {
    "kubectl": "install it, or run `make demo`, which builds it where Go is installed",
    "kubectl-elasticquota": "install Muster into this environment (`pip install -e .`)",
}


class ToolMissing(MusterError):
    """A program that the demo runs is not on PATH."""

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        self.advice = advice
        super().__init__(name, advice)

    def __str__(self) -> str:
        return f"{self.name} is not on PATH: {self.advice}"


class DemoFailed(MusterError):
    """An output differs from the expected one."""

    def __init__(self, chapter: int, what: str, problem: str) -> None:
        self.chapter = chapter
        self.what = what
        self.problem = problem
        super().__init__(chapter, what, problem)

    def __str__(self) -> str:
        return f"chapter {self.chapter}: {self.what}: {self.problem}"


@dataclass(frozen=True)
class CommandEnvironment:
    """Working directory and environment variables of commands."""

    folder: Path
    variables: dict[str, str]


def command_environment(folder: Path, kubeconfig: Path, cache: Path) -> CommandEnvironment:
    """The environment of commands. Raises ToolMissing.

    PATH includes the programs of this Python environment. kubectl's discovery cache depends on host and port,
    which another server may have used before, so it gets a directory of its own.
    """
    path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
    for name, advice in _PROGRAMS.items():
        if shutil.which(name, path=path) is None:
            raise ToolMissing(name, advice)
    own = {"PATH": path, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache), "KUBERC": "off"}
    return CommandEnvironment(folder, {**os.environ, **own})


def squeeze(text: str) -> str:
    """Text with single spaces between words, independent of column widths."""
    return " ".join(text.split())


class Player:
    """Plays chapters. `alive` raises if the cluster has ended; `quiet` suppresses all output."""

    def __init__(
        self, environment: CommandEnvironment, alive: Callable[[], None], *, pause: bool = False
    ) -> None:
        self._environment = environment
        self._alive = alive
        self._pause = pause
        self._color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.chapter = 0
        self.quiet = False

    # Output

    def title(self, number: int, text: str) -> None:
        """The heading of a chapter."""
        self.chapter = number
        self._print(self._styled(_BOLD, f"\n=== {number}. {text} ==="))

    def say(self, *lines: str) -> None:
        """Print a caption, which explains the next commands."""
        self._print("\n" + "\n".join(self._styled(_DIM, f"# {line}") for line in lines))

    def _print(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)

    def _styled(self, style: str, text: str) -> str:
        return f"{style}{text}{_RESET}" if self._color else text

    def _prompt(self, command: str) -> None:
        self._print(self._styled(_BOLD, f"$ {command}"))
        if self._pause and not self.quiet:
            sys.stdin.readline()

    # Commands

    def do(self, command: str, *shows: str, fails: bool = False) -> str:
        """Run a command once and return its output, which must contain `shows`. Raises DemoFailed."""
        self._prompt(command)
        code, said = self._run(command)
        self._print(said.rstrip())
        if (code != 0) != fails:
            self._fail(command, f"ended with exit code {code}: {squeeze(said)[-300:]}")
        missing = _missing(said, shows)
        if missing:
            self._fail(command, f"did not show {missing!r}")
        return said

    def look(self, command: str, *shows: str, never: Sequence[str] = ()) -> str:
        """Run a read-only command until its output contains `shows`; print and return the output.

        Earlier outputs are not printed. Raises DemoFailed after WITHIN_SECONDS, or if the output contains a
        text of `never`.
        """
        deadline = time.monotonic() + WITHIN_SECONDS
        while True:
            code, said = self._run(command)
            missing = _missing(said, shows) if code == 0 else f"exit code 0, it was {code}"
            if not missing or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        self._prompt(command)
        self._print(said.rstrip())
        if missing:
            self._fail(command, f"did not show {missing!r} within {WITHIN_SECONDS:.0f} s")
        for text in never:
            if squeeze(text) in squeeze(said):
                self._fail(command, f"shows {text!r}")
        return said

    # Checks without output

    def placed(self, namespace: str) -> dict[str, str]:
        """Node of each running pod of a namespace by pod name."""
        pods = self._json(f"kubectl get pods -n {namespace} -o json")["items"]
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in pods
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def expect(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until `holds` returns true. Raises DemoFailed after WITHIN_SECONDS."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while not holds():
            if time.monotonic() >= deadline:
                self._fail(what, f"was not true within {WITHIN_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def scheduled_by_muster(self, namespace: str) -> None:
        """Wait until the webhook manages a new namespace."""
        self._wait_for_name(f"pods of {namespace} are Muster's", f"kubectl run probe -n {namespace}")

    def webhook_answers(self) -> None:
        """Wait until the API server calls the webhook."""
        member = "kubectl run probe -n default --annotations=scheduling.k8s.io/group-name=probe"
        self._wait_for_name("members of groups are Muster's", member)

    def _wait_for_name(self, what: str, command: str) -> None:
        dry = f"{command} --image=busybox --dry-run=server -o json"
        self.expect(what, lambda: self._json(dry)["spec"].get("schedulerName") == "muster-scheduler")

    def output(self, command: str) -> str:
        """The output of a command that is not shown. Raises DemoFailed."""
        code, said = self._run(command)
        if code:
            self._fail(command, f"ended with exit code {code}: {squeeze(said)[-300:]}")
        return said

    def _json(self, command: str) -> Any:
        return json.loads(self.output(command))

    def _run(self, command: str) -> tuple[int, str]:
        self._alive()
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=self._environment.folder,
                env=self._environment.variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired:
            self._fail(command, f"did not end within {_COMMAND_SECONDS:.0f} s")
        return done.returncode, done.stdout

    def _fail(self, what: str, problem: str) -> Any:
        self._alive()
        raise DemoFailed(self.chapter, what, problem)


def _missing(said: str, shows: Iterable[str]) -> str:
    """The first expected text that is missing, or ""."""
    seen = squeeze(said)
    return next((text for text in shows if squeeze(text) not in seen), "")
