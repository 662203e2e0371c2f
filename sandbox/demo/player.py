"""Types commands as a person would, shows what they print, and holds it against the story."""

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
    """A program that the demo types is not on PATH."""

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        self.advice = advice
        super().__init__(name, advice)

    def __str__(self) -> str:
        return f"{self.name} is not on PATH: {self.advice}"


class StoryFailed(MusterError):
    """Something came out differently from what the story says."""

    def __init__(self, chapter: int, what: str, problem: str) -> None:
        self.chapter = chapter
        self.what = what
        self.problem = problem
        super().__init__(chapter, what, problem)

    def __str__(self) -> str:
        return f"chapter {self.chapter}: {self.what}: {self.problem}"


@dataclass(frozen=True)
class Stage:
    """Where commands run: the folder that file names are relative to, and the environment."""

    folder: Path
    environment: dict[str, str]


def set_stage(folder: Path, kubeconfig: Path, cache: Path) -> Stage:
    """The environment of typed commands. Raises ToolMissing.

    The programs of this Python environment are found even where it is not on PATH. kubectl's discovery cache
    is keyed by host and port, which may have been another server's before, so it gets a folder of its own.
    """
    path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
    for name, advice in _PROGRAMS.items():
        if shutil.which(name, path=path) is None:
            raise ToolMissing(name, advice)
    own = {"PATH": path, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache), "KUBERC": "off"}
    return Stage(folder, {**os.environ, **own})


def squeeze(text: str) -> str:
    """One blank between words, so that expectations need not know the widths of columns."""
    return " ".join(text.split())


class Player:
    """One performance. `alive` raises if the cluster has ended; `quiet` plays unseen."""

    def __init__(self, stage: Stage, alive: Callable[[], None], *, pause: bool = False) -> None:
        self._stage = stage
        self._alive = alive
        self._pause = pause
        self._color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.chapter = 0
        self.quiet = False

    # What is seen

    def title(self, number: int, text: str) -> None:
        """The heading of a chapter."""
        self.chapter = number
        self._print(self._styled(_BOLD, f"\n=== {number}. {text} ==="))

    def say(self, *lines: str) -> None:
        """A caption: what comes next, and why."""
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

    # What is typed

    def do(self, command: str, *shows: str, fails: bool = False) -> str:
        """Type a command once. Its exit code and its output must be as told; returns the output."""
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
        """Type a command that only reads, as soon as it shows what is expected; returns the output.

        It is tried unseen until then, because what the scheduler does takes its moment.
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

    # What is checked unseen

    def placed(self, namespace: str) -> dict[str, str]:
        """Node of every pod of a namespace that runs."""
        pods = self._json(f"kubectl get pods -n {namespace} -o json")["items"]
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in pods
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def expect(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds; StoryFailed if it does not in time."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while not holds():
            if time.monotonic() >= deadline:
                self._fail(what, f"did not come true within {WITHIN_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def scheduled_by_muster(self, namespace: str) -> None:
        """Wait until the webhook knows that a new namespace is managed."""
        dry = f"kubectl run probe -n {namespace} --image=busybox --dry-run=server -o json"
        self.expect(
            f"pods of {namespace} are Muster's",
            lambda: self._json(dry)["spec"].get("schedulerName") == "muster-scheduler",
        )

    def _json(self, command: str) -> Any:
        code, said = self._run(command)
        if code:
            self._fail(command, f"ended with exit code {code}: {squeeze(said)[-300:]}")
        return json.loads(said)

    def _run(self, command: str) -> tuple[int, str]:
        self._alive()
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=self._stage.folder,
                env=self._stage.environment,
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
        raise StoryFailed(self.chapter, what, problem)


def _missing(said: str, shows: Iterable[str]) -> str:
    """The first expected text that is not there, or an empty text."""
    seen = squeeze(said)
    return next((text for text in shows if squeeze(text) not in seen), "")
