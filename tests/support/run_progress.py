"""Progress of a test run: what is left out, how many tests there are, how far the run is, what failed.

On a terminal, one line is kept up to date; elsewhere a plain line follows every few seconds. It replaces the
reporter's letters, one for each test.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import pytest
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

EVERY_SECONDS: Final = 5.0
LONG_SECONDS: Final = 20.0


def own_console() -> Console:
    """A console on the present standard output. A test that replaces `sys.stdout` later gets none of it."""
    return Console(file=os.fdopen(os.dup(1), "w", encoding="utf-8"))


class RunProgress:
    """The plugin; it is registered in the process that starts the run, not in its workers.

    `left_out` are lines that say what does not run, and why.
    """

    def __init__(self, console: Console, left_out: Sequence[str], every: float = EVERY_SECONDS) -> None:
        self._console = console
        self._left_out = left_out
        self._every = every
        # By pool of workers; "" where there are no pools.
        self._totals: dict[str, int] = {}
        self._running: dict[str, float] = {}
        self._ended: set[str] = set()
        self._failed: set[str] = set()
        self._done = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="test-progress", daemon=True)
        self._started = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("collecting tests", total=None)

    # Hooks of pytest

    def pytest_sessionstart(self) -> None:
        self._started = time.monotonic()
        for line in self._left_out:
            self._say(f"left out: {line}")
        if self._console.is_terminal:
            self._bar.start()
        else:
            self._ticker.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        self._collected(node.workerinput.get("pool") or "", len(ids))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._collected("", len(session.items))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_keyboard_interrupt(self) -> None:
        for nodeid, start in list(self._running.items()):
            self._say(f"interrupted: {nodeid}, {time.monotonic() - start:.0f} s")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self._failed:
            self._failed.add(report.nodeid)
            self._say(f"FAILED {report.nodeid} ({report.when})")
        if report.when == "teardown":
            self._running.pop(report.nodeid, None)
            self._ended.add(report.nodeid)
            self._bar.update(self._task, completed=len(self._ended), description=self._words())

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """No letters: they would stand in the lines of this run, which say the same, as does the summary."""
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        if report.passed:
            return "passed" if report.when == "call" else "", "", ""
        return "skipped", "", "SKIPPED"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._done.set()
        self._bar.stop()
        if self._ticker.is_alive():
            self._ticker.join()

    # Lines

    def _collected(self, pool: str, count: int) -> None:
        """All workers of a pool collect the same tests; a worker that replaces another one does so again."""
        if pool in self._totals:
            return
        self._totals[pool] = count
        self._bar.update(self._task, total=self._total(), description=self._words())
        self._say(f"{count:,} {pool} tests, collected in {self._seconds():.0f} s".replace("  ", " "))

    def _tick(self) -> None:
        while not self._done.wait(self._every):
            self._say(f"{self._words()}, {self._seconds():.0f} s{self._long_running()}")

    def _words(self) -> str:
        if not self._totals:
            return "collecting tests"
        return f"{len(self._ended):,} of {self._total():,} tests, {len(self._failed)} failed"

    def _long_running(self) -> str:
        """Where a run is ended from outside, its last line says what it has waited for."""
        now = time.monotonic()
        long = [
            (start, nodeid) for nodeid, start in self._running.copy().items() if now - start > LONG_SECONDS
        ]
        return "".join(f"; {nodeid} runs for {now - start:.0f} s" for start, nodeid in sorted(long))

    def _total(self) -> int:
        return sum(self._totals.values())

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
