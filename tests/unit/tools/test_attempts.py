"""A second attempt for few failed tests, and the counts that tell of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.counts import count, summary

ROOT = Path(__file__).parents[3]
# Fails until the file `marks/N` is there, which it makes.
UNSTABLE = """
import pathlib
import pytest

def first(name):
    mark = pathlib.Path("marks") / name
    if mark.exists():
        return False
    mark.touch()
    return True
"""
PASSES_LATER = (
    UNSTABLE + "@pytest.mark.parametrize('n', range({}))\ndef test_later(n): assert not first(str(n))\n"
)
STABLE = "def test_stable(): pass\n"
NEVER = "def test_never(): assert False\n"
BAD_END = (
    UNSTABLE
    + "@pytest.fixture\ndef end():\n    yield\n    assert not first('end')\ndef test_end(end): pass\n"
)

RUNS: dict[str, tuple[dict[str, str], int, str, list[str]]] = {
    "all pass": ({"stable": STABLE}, 0, "1 passed, 0 failed", []),
    "one fails once": (
        {"stable": STABLE, "later": PASSES_LATER.format(1)},
        0,
        "2 passed, 0 failed",
        ["test_later.py::test_later[0]"],
    ),
    "three fail once": (
        {"stable": STABLE, "later": PASSES_LATER.format(3)},
        0,
        "4 passed, 0 failed",
        [f"test_later.py::test_later[{n}]" for n in range(3)],
    ),
    "four fail once": ({"stable": STABLE, "later": PASSES_LATER.format(4)}, 1, "1 passed, 4 failed", []),
    "one fails twice": ({"stable": STABLE, "never": NEVER}, 1, "1 passed, 1 failed", []),
    "one fails twice, and one once": (
        {"never": NEVER, "later": PASSES_LATER.format(1)},
        1,
        "1 passed, 2 failed",
        [],
    ),
    # Pytest itself counts such a test twice: as passed, and as an error.
    "a fixture ends badly once": ({"end": BAD_END}, 0, "2 passed, 0 failed", ["test_end.py::test_end"]),
    "a file cannot be imported": ({"broken": "import nowhere"}, 2, "0 passed, 1 failed", []),
    "there is no test": ({"empty": ""}, 5, "0 passed, 0 failed", []),
}


def attempts(
    files: dict[str, str], folder: Path, *options: str, at_most: int = 3
) -> subprocess.CompletedProcess[str]:
    (folder / "marks").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "tests.tools.attempts", "-q", "--rootdir", ".", *options, "."]
    environ = {
        "PYTHONPATH": str(ROOT),
        "PATH": "",
        "MUSTER_SECOND_ATTEMPTS": str(at_most),
        # Of the plugins only xdist has a part in this, and to load the others takes half of such a run.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "xdist.plugin",
    }
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)


# Each starts pytest once or twice: two are enough for every change.
SOON = {"one fails once", "one fails twice"}
CASES = [pytest.param(case, 0, marks=() if case in SOON else pytest.mark.long) for case in RUNS]
CASES.append(pytest.param("three fail once", 2, marks=pytest.mark.long))


@pytest.mark.parametrize(("case", "workers"), CASES)
def test_few_failures_get_a_second_attempt(case: str, workers: int, tmp_path: Path) -> None:
    files, code, counts, unstable = RUNS[case]
    ended = attempts(files, tmp_path, "-n", str(workers))
    assert ended.returncode == code, ended.stdout + ended.stderr
    told = [line for line in ended.stdout.splitlines() if line.startswith("passed at")]
    assert told == [f"passed at the second attempt only: {name}" for name in unstable]
    assert summary([ended.stdout.splitlines()]) == [*told, counts]
    # What the first attempt saw is never lost.
    assert len(re.findall("^E  ", ended.stdout, re.M)) >= len(unstable)


def test_the_night_gives_no_second_attempt(tmp_path: Path) -> None:
    ended = attempts({"later": PASSES_LATER.format(1)}, tmp_path, "-n", "0", at_most=0)
    assert (ended.returncode, "no second attempt: 1 test failed, and at most 0 get one" in ended.stdout) == (
        1,
        True,
    )


LOGS = {
    "plain": (["12 passed in 3.21s (0:00:03)"], (12, 0, [])),
    "in colours": (["\x1b[32m\x1b[1m12 passed\x1b[0m\x1b[32m in 3.21s\x1b[0m"], (12, 0, [])),
    "failures and errors": (["1 failed, 10 passed, 2 deselected, 3 errors in 61.02s"], (10, 4, [])),
    "two runs": (["1 failed, 1 passed in 1.00s", "2 passed in 1.00s"], (3, 1, [])),
    "what only looks like it": (["say: 12 passed in 3.21s", "12 of 13 tests, 0 failed, 5 s"], (0, 0, [])),
}


@pytest.mark.parametrize(("lines", "wanted"), LOGS.values(), ids=LOGS)
def test_closing_lines_are_counted(lines: list[str], wanted: tuple[int, int, list[str]]) -> None:
    assert count(lines) == wanted


def test_counts_of_several_logs_are_one_sum() -> None:
    logs = [["1 failed, 1 passed in 1.00s"], ["2 passed in 1.00s"]]
    assert summary(logs) == ["3 passed, 1 failed"]


def test_what_seeds_of_the_day_found_stands_before_the_counts() -> None:
    logs = [["new finding: world 7", "  again: MUSTER_DAY=2026-11-29 make test", "2 passed in 1.00s"]]
    assert summary(logs) == ["new finding: world 7", "2 passed, 0 failed"]
