"""What `make test` leaves out runs in another target."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import smoke
from tests.support.makefile import commands

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


def test_searches_and_long_tests_run_as_a_whole_in_a_target_of_their_own() -> None:
    run = commands("test-searches")
    shortened = {
        str(path.relative_to(ROOT)) for path in TESTS.rglob("test_*.py") if SHORTENED.search(path.read_text())
    }
    assert len(shortened) > 50
    assert shortened <= set(run.split())
    assert "not long" not in run
    assert "MUSTER_SEARCH_PART=1 " in run


def test_marks_and_numbers_of_cases_stand_in_the_files_that_the_target_finds() -> None:
    others = [path for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
    helpers = {TESTS / "conftest.py", TESTS / "support" / "searches.py"}
    marked = [path for path in others if re.search(r"mark\.long|searches import", path.read_text())]
    assert set(marked) <= helpers


def test_everything_that_make_test_leaves_out_is_a_stage_of_ci() -> None:
    stages = re.findall(r"^stage \S+ \d+ (.+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert "not long" in commands("test")
    for target in (
        "test-searches PART=4",
        "test-faults",
        "test-dashboards",
        "test-browser",
        "test-e2e SERVER=kube-apiserver",
    ):
        assert f"make {target}" in stages


def test_what_make_test_leaves_out_beside_the_smoke_tests_is_a_stage_of_ci() -> None:
    whole = commands("test-sandbox").splitlines()[-1].split()
    assert smoke.OPTION not in whole
    assert set(smoke.FOLDERS) <= set(whole)
    if smoke.OPTION in commands("test").split():
        assert re.search(r"^stage \S+ \d+ make test-sandbox$", (ROOT / ".ci" / "run").read_text(), re.M)


def test_smoke_tests_stand_in_folders_that_the_target_plays_as_a_whole() -> None:
    marked = [path for path in TESTS.rglob("*.py") if re.search(r"@pytest\.mark\.smoke", path.read_text())]
    helpers = {TESTS / "support" / "smoke.py", TESTS / "project" / "test_stages.py"}
    places = {path: [path.is_relative_to(ROOT / folder) for folder in smoke.FOLDERS] for path in marked}
    assert {path for path, within in places.items() if not any(within)} <= helpers


def test_a_smoke_test_is_not_long_and_has_the_cases_that_it_names() -> None:
    """Else `make test` would play nothing of its file, in silence."""
    wrong = []
    for folder in smoke.FOLDERS:
        for path in (ROOT / folder).rglob("test_*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            marks = [mark for mark in map(ast.unparse, _decorators(tree)) if "mark.smoke" in mark]
            cases = {case for mark in marks for case in re.findall(r"'([^']*)'", mark)}
            texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            # Once in the mark, and once in the table.
            wrong += [f"{path.name}: has no case {case!r}" for case in cases if texts.count(case) < 2]
            wrong += [f"{path.name}: a long test is no smoke" for _ in _long_and_smoke(tree)]
    assert not wrong


def _decorators(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from node.decorator_list


def _long_and_smoke(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = " ".join(map(ast.unparse, node.decorator_list))
            if "mark.smoke" in marks and "mark.long" in marks:
                yield node.name


def test_the_night_plays_the_cases_that_ci_leaves_out() -> None:
    makefile = (ROOT / "Makefile").read_text()
    night = makefile.partition("\nnightly:")[2].partition("\n\n")[0]
    assert re.search(r"\$\(MAKE\) --no-print-directory test-searches \|\|", night)
