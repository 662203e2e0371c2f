"""Random worlds have new seeds each day, and what they find is told and judged."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.support import day_seeds
from tests.support.day_seeds import DAY, DaySeeds, NewFindings, first_seed
from tests.support.searches import PART
from tests.tools.counts import NEW_FINDING

FOUND = ["world 7: a pod waits in vain"]


def test_no_seed_is_played_on_two_days_or_by_day_and_by_night() -> None:
    days = ("2026-11-29", "2026-11-30", "2027-01-01")
    starts = [first_seed(day, night=night) for day in days for night in (False, True)]
    assert starts == sorted(set(starts))
    # The night asks for 20,000 worlds at most, a day for some hundreds.
    assert all(later - start >= 10_000 for start, later in zip(starts[::2], starts[1::2], strict=True))
    assert all(later - start >= 30_000 for start, later in zip(starts[1::2], starts[2::2], strict=False))


def test_a_search_plays_its_part_of_the_seeds_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TRIALS", "60")
    asked = DaySeeds(80, "MUSTER_TRIALS")
    assert [len(seeds) for seeds in asked.portions(25)] == [25, 25, 10]
    assert [seed for seeds in asked.portions(25) for seed in seeds] == list(asked.seeds)
    monkeypatch.delenv("MUSTER_TRIALS")
    assert len(DaySeeds(80, "MUSTER_TRIALS").seeds) == max(1, 80 // PART)


VERDICTS = {
    "by day, a finding fails the run": (False, False, FOUND, 0, True),
    "by night, a finding fails the run": (True, False, FOUND, 0, True),
    "in continuous integration, a finding by day is told only": (False, True, FOUND, 0, False),
    "in continuous integration, a finding by night fails the run": (True, True, FOUND, 0, True),
    "as many findings as are allowed are told only": (False, False, FOUND, 1, False),
    "no finding": (False, False, [], 0, False),
}


@pytest.mark.parametrize(
    ("night", "continuous", "findings", "allowed", "fails"), VERDICTS.values(), ids=VERDICTS
)
def test_findings_are_told_and_judged(
    monkeypatch: pytest.MonkeyPatch,
    night: bool,
    continuous: bool,
    findings: list[str],
    allowed: int,
    fails: bool,
) -> None:
    monkeypatch.setattr(day_seeds, "NIGHT", night)
    monkeypatch.setattr(day_seeds, "CONTINUOUS", continuous)
    monkeypatch.setenv("MUSTER_TRIALS", "60")
    properties: list[tuple[str, str]] = []
    request: Any = SimpleNamespace(node=SimpleNamespace(nodeid="a.py::b[0]", user_properties=properties))
    failed = False
    try:
        DaySeeds(80, "MUSTER_TRIALS").judge(findings, request, allowed=allowed)
    except pytest.fail.Exception as failure:
        failed = str(failure) == FOUND[0]
    assert failed == fails
    again = f"MUSTER_DAY={DAY} MUSTER_TRIALS=60 python -m pytest 'a.py::b[0]'"
    night_too = "MUSTER_NIGHT=1 " if night else ""
    assert properties == [(NEW_FINDING, f"{text}\n  again: {night_too}{again}") for text in findings]


def test_a_run_tells_its_day_first_and_its_findings_last() -> None:
    first, last = io.StringIO(), []
    told = NewFindings(Console(file=first))
    told.pytest_sessionstart()
    made: dict[str, Any] = {"nodeid": "a", "outcome": "passed", "longrepr": None, "keywords": {}}
    for when in ("setup", "call", "teardown"):
        properties = [(NEW_FINDING, FOUND[0]), ("other", "thing")]
        report = pytest.TestReport(location=("", 0, ""), when=when, user_properties=properties, **made)  # type: ignore[arg-type]
        told.pytest_runtest_logreport(report)
    reporter: Any = SimpleNamespace(write_line=last.append)
    told.pytest_terminal_summary(reporter)
    assert first.getvalue().startswith(f"seeds of the day: {first_seed()} ")
    assert last == [f"{NEW_FINDING} {FOUND[0]}"]
