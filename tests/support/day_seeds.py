"""Seeds of the day: random worlds that nobody has played before, the same ones all day (UTC).

`make test` plays a few of them, the night (`MUSTER_NIGHT`) many others. `MUSTER_DAY=2026-11-29` plays the
seeds of that day again. A finding is told at the end of the run, with the command that shows it again. It
fails the run, except in continuous integration: there the seeds of a day must not decide whether a change is
good. Nights are strict everywhere, and so are the worlds of old findings.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime
from typing import Final

import pytest
from rich.console import Console

from tests.support.searches import cases
from tests.tools.counts import NEW_FINDING

DAY: Final = os.environ.setdefault("MUSTER_DAY", datetime.now(UTC).date().isoformat())
NIGHT: Final = bool(os.environ.get("MUSTER_NIGHT"))
CONTINUOUS: Final = os.environ.get("CI") == "true"
_FIRST_DAY: Final = date(2026, 1, 1)
_FIRST_SEED: Final = 10_000_000
_PER_DAY: Final = 100_000
# Of these, the night begins where the day's have ended.
_BY_DAY: Final = 10_000


def first_seed(day: str = DAY, *, night: bool = NIGHT) -> int:
    """The first of the seeds of a day such as `2026-11-29`."""
    days = (date.fromisoformat(day) - _FIRST_DAY).days
    return _FIRST_SEED + days * _PER_DAY + night * _BY_DAY


def portion_names() -> Iterator[str]:
    """Names for the portions of a search: the same ones every day."""
    return (f"portion {number} of the day" for number in itertools.count(1))


class DaySeeds:
    """The seeds of the day for one search, and the verdict about what it finds.

    The number of seeds follows `tests/support/searches.py`; the night gives it by the variable.
    """

    def __init__(self, usual: int, variable: str) -> None:
        self._variable = variable
        start = first_seed()
        self.seeds: Final = range(start, start + cases(usual, variable))

    def portions(self, size: int) -> list[range]:
        """The seeds in ranges of at most so many."""
        starts = range(0, len(self.seeds), size)
        return [self.seeds[start : start + size] for start in starts]

    def judge(self, findings: Collection[str], request: pytest.FixtureRequest, *, allowed: int = 0) -> None:
        """Tell findings; where they are more than are allowed, fail outside continuous integration."""
        for finding in findings:
            again = f"{self._again()} python -m pytest '{request.node.nodeid}'"
            request.node.user_properties.append((NEW_FINDING, f"{finding}\n  again: {again}"))
        if len(findings) > allowed and (NIGHT or not CONTINUOUS):
            pytest.fail("\n".join(findings))

    def _again(self) -> str:
        night = "MUSTER_NIGHT=1 " if NIGHT else ""
        return f"{night}MUSTER_DAY={DAY} {self._variable}={len(self.seeds)}"


class NewFindings:
    """The plugin of the process that starts a run: it tells the day, and at the end the findings."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[str] = []

    def pytest_sessionstart(self) -> None:
        line = f"seeds of the day: {first_seed()} and those after it (MUSTER_DAY={DAY} plays them again)"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._lines += [str(value) for name, value in report.user_properties if name == NEW_FINDING]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._lines:
            terminalreporter.write_line(f"{NEW_FINDING} {line}")
