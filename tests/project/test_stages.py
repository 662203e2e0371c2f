"""What `make test` leaves out runs in another target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.makefile import commands
from tests.support.stages import stages

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
# `make test` plays fewer cases of these, or none.
SHORTENED = re.compile(r"\bhypothesis\b|\bcases\(|\bPART\b|\bmark\.long\b")


@pytest.fixture(autouse=True, params=["from a shell", "under make"])
def caller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI runs these tests under `make test-searches PART=4`, which sets what is seen here."""
    if request.param == "under make":
        monkeypatch.setenv("MAKEFLAGS", "n -- PART=4")
        monkeypatch.setenv("MAKELEVEL", "1")
        monkeypatch.setenv("PART", "4")
        monkeypatch.setenv("MUSTER_SEARCH_PART", "4")


def test_searches_and_long_tests_run_as_a_whole_in_targets_of_their_own() -> None:
    runs = [commands(target).splitlines()[-1] for target in ("test-searches", "test-sandbox")]
    played = {Path(word) for run in runs for word in run.split() if word.startswith("tests/")}
    shortened = {
        path.relative_to(ROOT) for path in TESTS.rglob("test_*.py") if SHORTENED.search(path.read_text())
    }
    assert len(shortened) > 50
    assert [path for path in shortened if not {path, *path.parents} & played] == []
    assert all("not long" not in run and "MUSTER_SEARCH_PART=1 " in run for run in runs)


def test_marks_and_numbers_of_cases_stand_in_the_files_that_the_target_finds() -> None:
    others = [path for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
    helpers = {TESTS / "conftest.py", TESTS / "support" / "searches.py", TESTS / "support" / "day_seeds.py"}
    marked = [path for path in others if re.search(r"mark\.long|searches import", path.read_text())]
    assert set(marked) <= helpers


def test_everything_that_make_test_leaves_out_is_a_stage_of_ci() -> None:
    played = set(stages().values())
    assert "not long" in commands("test")
    for target in (
        "test-searches PART=12",
        "test-faults SERVER=kube-apiserver",
        "test-dashboards",
        "test-browser",
        "test-e2e SERVER=kube-apiserver LEFT_OUT=tests/e2e/sandbox PART=4",
    ):
        assert f"make {target}" in played


def test_the_night_plays_the_cases_that_ci_leaves_out() -> None:
    makefile = (ROOT / "Makefile").read_text()
    night = makefile.partition("\nnightly:")[2].partition("\n\n")[0]
    for target in ("test-searches", "test-sandbox", "test-faults"):
        assert re.search(rf"\$\(MAKE\) --no-print-directory {target} \|\|", night)


# A constant of a test file: the number of cases of a search, which the environment may raise.
NUMBER = re.compile(
    r"""^[A-Z_]+(?:: Final)? = (?:cases|DaySeeds|int)\(.*"(MUSTER_[A-Z_]+)\"""",
    re.M,
)


def test_the_night_raises_the_number_of_cases_of_every_search_that_has_a_variable() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipes = [makefile.partition(f"\n{target}:")[2].partition("\n\n")[0] for target in ("fuzz", "nightly")]
    searches = {
        (variable, path.relative_to(ROOT))
        for path in TESTS.rglob("test_*.py")
        for variable in NUMBER.findall(path.read_text())
    }
    assert len(searches) > 15

    def is_played(variable: str, path: Path) -> bool:
        command = re.compile(rf"\b{variable}=\d+\b((?:.|\\\n)*?)(?=\|\||\Z)")
        words = [word for recipe in recipes for found in command.findall(recipe) for word in found.split()]
        return any(str(named) in words for named in (path, path.parent))

    assert not [f"{variable} of {path}" for variable, path in searches if not is_played(variable, path)]
