"""Player of the demo: prints captions, runs commands, and compares their output with the expected output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NoReturn, Protocol

from sandbox.demo.commands import Commands, CommandTooSlow, NeedsKubectl, Outcome
from sandbox.demo.screen import Screen
from sandbox.objects import Obj
from scheduler_core.errors import MusterError
from scheduler_core.model.names import MUSTER_SCHEDULER

# What must be true of an output as a whole, by its name.
Facts = Mapping[str, Callable[[str], bool]]
_NO_FACTS: Final[Facts] = {}

WITHIN_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.01
# After an output that was not the expected one, the next try waits for a change of the cluster that is
# followed by so much rest, but not longer than the second number.
_REST_SECONDS: Final = 0.05
_CHANGE_SECONDS: Final = 0.5


class DemoFailed(MusterError):
    """An output differs from the expected one."""

    def __init__(self, chapter: int, what: str, problem: str) -> None:
        self.chapter = chapter
        self.what = what
        self.problem = problem
        super().__init__(chapter, what, problem)

    def __str__(self) -> str:
        return f"chapter {self.chapter}: {self.what}: {self.problem}"


def squeeze(text: str) -> str:
    """Text with single spaces between words, independent of column widths."""
    return " ".join(text.split())


class ClusterLife(Protocol):
    """What the player knows of the running cluster."""

    @property
    def revision(self) -> int:
        """A number that grows with every write."""

    def check(self) -> None:
        """Raise the error that ended the cluster, if any."""


class DemoObjects(Protocol):
    """What the player reads without showing it."""

    def list(self, kind: str, namespace: str | None = None, **selectors: str) -> list[Obj]:
        """Objects of a kind."""

    def scheduler_of_new_pods(self, namespace: str, annotations: Mapping[str, str]) -> str:
        """The scheduler's name that admission sets on a new pod."""


class Player:
    """Plays chapters. `left_out` has the commands that were not run because they need kubectl."""

    def __init__(
        self,
        commands: Commands,
        objects: DemoObjects,
        cluster: ClusterLife,
        screen: Screen,
        *,
        pause: bool = False,
    ) -> None:
        self._commands = commands
        self._objects = objects
        self._cluster = cluster
        self._screen = screen
        self._pause = pause
        self.chapter = 0
        self.left_out: list[tuple[int, str]] = []

    # Output

    def title(self, number: int, text: str) -> None:
        """The heading of a chapter."""
        self.chapter = number
        self._screen.show("title", f"=== {number}. {text} ===", gap=True)

    def say(self, *lines: str) -> None:
        """Print a caption, which explains the next commands."""
        self._screen.show("caption", "\n".join(f"# {line}" for line in lines), gap=True)

    def _prompt(self, line: str) -> None:
        self._screen.show("command", line)
        if self._pause and not self._screen.quiet:
            sys.stdin.readline()

    def _shown(self, outcome: Outcome) -> None:
        self._screen.show("output", outcome.said.rstrip())

    # Commands

    def do(self, command: str, *shows: str, fails: bool = False) -> str:
        """Run a command once and return its output, which must contain `shows`.

        Raises DemoFailed, and NeedsKubectl if the chapter cannot go on without kubectl.
        """
        self._prompt(self._commands.line(command))
        outcome = self._run(command)
        self._shown(outcome)
        if (outcome.code != 0) != fails:
            self._fail_with(command, outcome)
        missing = _missing(outcome.said, shows)
        if missing:
            self._fail(command, f"did not show {missing!r}")
        return outcome.said

    def look(self, command: str, *shows: str, never: Sequence[str] = (), facts: Facts = _NO_FACTS) -> str:
        """Run a read-only command until its output contains `shows`, and `facts` are true of it as a whole;
        print and return the output.

        Earlier outputs are not printed. A command that needs kubectl is left out if there is none. Raises
        DemoFailed after WITHIN_SECONDS, or if the output contains a text of `never`.
        """
        try:
            line = self._commands.line(command)
        except NeedsKubectl:
            self.left_out.append((self.chapter, command))
            self._screen.show("caption", f"# Left out, because it needs kubectl: {command}")
            return ""
        outcome, missing = self._awaited(command, shows, facts)
        self._prompt(line)
        self._shown(outcome)
        if missing:
            self._fail(command, f"did not show {missing!r} within {WITHIN_SECONDS:.0f} s")
        for text in never:
            if squeeze(text) in squeeze(outcome.said):
                self._fail(command, f"shows {text!r}")
        return outcome.said

    def _awaited(self, command: str, shows: Iterable[str], facts: Facts) -> tuple[Outcome, str]:
        """The first outcome with these texts and facts, or the last one and what is missing in it."""
        deadline = time.monotonic() + WITHIN_SECONDS
        with self._screen.waiting(f"waiting for the output of {command}"):
            while True:
                revision = self._cluster.revision
                outcome = self._outcome(command)
                # Facts read what the texts have shown to be there.
                missing = _missing(outcome.said, shows) or _untrue(outcome.said, facts)
                if outcome.code:
                    missing = f"exit code 0, it was {outcome.code}"
                if not missing or time.monotonic() >= deadline:
                    return outcome, missing
                self._await_change(revision)

    def _await_change(self, revision: int) -> None:
        """Wait until the cluster has changed since a revision and is at rest; never long."""
        deadline = time.monotonic() + _CHANGE_SECONDS
        rest = 0.0
        last = revision
        while time.monotonic() < deadline and (last == revision or time.monotonic() < rest):
            time.sleep(_POLL_SECONDS)
            if self._cluster.revision != last:
                last = self._cluster.revision
                rest = time.monotonic() + _REST_SECONDS

    # Checks without output

    def placed(self, namespace: str) -> dict[str, str]:
        """Node of each running pod of a namespace by pod name."""
        self._cluster.check()
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self._objects.list("pods", namespace)
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def next_second(self, namespace: str) -> None:
        """Wait until new pods are younger than all pods of a namespace: ages are whole seconds.

        Victims are ordered by their start, so that each pod with a node must have started.
        """

        def passed() -> bool:
            pods = self._objects.list("pods", namespace)
            stamps = [pod["metadata"]["creationTimestamp"] for pod in pods]
            starts = [pod["status"].get("startTime", "") for pod in pods if pod["spec"].get("nodeName")]
            return all(starts) and all(
                datetime.fromisoformat(stamp).timestamp() + 1 <= time.time() for stamp in stamps + starts
            )

        self.expect("a second has passed", passed)

    def expect(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until `holds` returns true. Raises DemoFailed after WITHIN_SECONDS."""
        deadline = time.monotonic() + WITHIN_SECONDS
        with self._screen.waiting(f"waiting until {what}"):
            while not holds():
                if time.monotonic() >= deadline:
                    self._fail(what, f"was not true within {WITHIN_SECONDS:.0f} s")
                time.sleep(_POLL_SECONDS)

    def scheduled_by_muster(self, namespace: str) -> None:
        """Wait until the webhook manages a new namespace."""
        self._wait_for_name(f"pods of {namespace} are Muster's", namespace, {})

    def webhook_answers(self) -> None:
        """Wait until the API server calls the webhook."""
        group = {"scheduling.k8s.io/group-name": "probe"}
        self._wait_for_name("members of groups are Muster's", "default", group)

    def _wait_for_name(self, what: str, namespace: str, annotations: Mapping[str, str]) -> None:
        def named() -> bool:
            self._cluster.check()
            return self._objects.scheduler_of_new_pods(namespace, annotations) == MUSTER_SCHEDULER

        self.expect(what, named)

    def output(self, command: str) -> str:
        """The output of a command that is not shown. Raises DemoFailed."""
        outcome = self._run(command)
        if outcome.code:
            self._fail_with(command, outcome)
        return outcome.said

    def _run(self, command: str) -> Outcome:
        with self._screen.waiting(f"waiting for the end of {command}"):
            return self._outcome(command)

    def _outcome(self, command: str) -> Outcome:
        self._cluster.check()
        try:
            return self._commands.run(command)
        except CommandTooSlow as error:
            self._fail(command, f"did not end within {error.seconds:.0f} s")

    def _fail_with(self, command: str, outcome: Outcome) -> NoReturn:
        self._fail(command, f"ended with exit code {outcome.code}: {squeeze(outcome.said)[-300:]}")

    def _fail(self, what: str, problem: str) -> NoReturn:
        self._cluster.check()
        raise DemoFailed(self.chapter, what, problem)


def _missing(said: str, shows: Iterable[str]) -> str:
    """The first expected text that is missing, or ""."""
    seen = squeeze(said)
    return next((text for text in shows if squeeze(text) not in seen), "")


def _untrue(said: str, facts: Facts) -> str:
    """The name of the first fact that is not true of an output, or ""."""
    return next((name for name, holds in facts.items() if not holds(said)), "")
