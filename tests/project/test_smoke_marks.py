"""Smoke tests: what `make test` leaves out is played elsewhere, and each mark chooses something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support import smoke
from tests.support.makefile import commands
from tests.support.stages import stages

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


def test_what_make_test_leaves_out_beside_the_smoke_tests_is_a_stage_of_ci() -> None:
    whole = commands("test-sandbox").splitlines()[-1]
    assert set(smoke.FOLDERS) <= set(whole.split())
    assert not re.search(rf"{smoke.OPTION}|not long", whole)
    if smoke.OPTION in commands("test").split():
        assert stages()["test-sandbox"] in ("make test-sandbox", "make test-sandbox PART=4")


def test_smoke_tests_stand_in_folders_that_the_target_plays_as_a_whole() -> None:
    marked = [path for path in TESTS.rglob("*.py") if re.search(r"@pytest\.mark\.smoke", path.read_text())]
    helpers = {TESTS / "support" / "smoke.py", TESTS / "project" / "test_smoke_marks.py"}
    places = {path: [path.is_relative_to(ROOT / folder) for folder in smoke.FOLDERS] for path in marked}
    assert {path for path, within in places.items() if not any(within)} <= helpers


def test_a_smoke_test_is_not_long_and_has_the_cases_that_it_names() -> None:
    """Else `make test` would play nothing of its file, in silence."""
    wrong = []
    for folder in smoke.FOLDERS:
        for path in (ROOT / folder).rglob("test_*.py"):
            text = path.read_text(encoding="utf-8")
            if "mark.smoke" not in text:
                continue
            tree = ast.parse(text)
            marks = [mark for mark in map(ast.unparse, _decorators(tree)) if "mark.smoke" in mark]
            cases = {case for mark in marks for case in re.findall(r"'([^']*)'", mark)}
            texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            # Cases of some tables are functions.
            texts += [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
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
