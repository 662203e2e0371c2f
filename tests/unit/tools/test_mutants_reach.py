"""The tests that are asked about faults are those of the product that `make test` plays."""

from __future__ import annotations

import shlex

import pytest

from tests.support.extent import left_out
from tests.support.makefile import commands
from tests.tools.mutants_reach import IGNORED, OF_TESTS, SEARCH_PART, SELECTION, files_of_tests
from tests.tools.mutants_rooms import ROOT

NEEDED = [path.relative_to(ROOT).as_posix() for item in left_out(None, lambda _: True) for path in item.paths]


@pytest.fixture(scope="module")
def make_test() -> list[str]:
    """The words of the command with which `make test` plays the tests."""
    return shlex.split(commands("test").splitlines()[-1])


def test_what_make_test_ignores_is_not_asked(make_test: list[str]) -> None:
    ignored = [word.removeprefix("--ignore=") for word in make_test if word.startswith("--ignore=")]
    assert {f"{folder}/" for folder in [*ignored, *NEEDED]} == set(IGNORED)


def test_tests_are_selected_as_by_make_test(make_test: list[str]) -> None:
    at = make_test.index(SELECTION[0])
    assert tuple(make_test[at : at + len(SELECTION)]) == SELECTION
    assert f"MUSTER_SEARCH_PART={SEARCH_PART}" in make_test


def test_every_file_is_asked_but_those_of_how_tests_are_run() -> None:
    every = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    others = every - set(files_of_tests(ROOT))
    assert {file for file in others if not file.startswith(IGNORED)} == {
        file for file in every if file.startswith(OF_TESTS)
    }
    assert "tests/e2e/scheduler/test_scheduler.py" in files_of_tests(ROOT)
