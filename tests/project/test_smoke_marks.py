"""Smoke tests: what `make test` leaves out is played elsewhere, and each mark chooses something."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.support import smoke
from tests.support.extent import SANDBOX_ONLY
from tests.support.makefile import commands
from tests.support.stages import stages

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


def test_what_make_test_leaves_out_beside_the_smoke_tests_is_played_as_a_whole() -> None:
    """Stories on a real kube-apiserver, the tests of the sandbox on the sandbox; the night plays all."""
    assert smoke.OPTION in commands("test").split()
    night, stories = (commands(target).splitlines()[-1] for target in ("test-sandbox", "test-e2e"))
    assert set(smoke.FOLDERS) <= set(night.split())
    assert "tests/e2e" in stories.split()
    assert not [run for run in (night, stories) if re.search(rf"{smoke.OPTION}|not long", run)]
    assert stages()["test-e2e"] == "make test-e2e SERVER=kube-apiserver LEFT_OUT=tests/e2e/sandbox PART=4"
    assert "test-e2e SERVER=$(NEWEST) ||" in (ROOT / "Makefile").read_text()
    itself = ("tests/e2e/sandbox", *(f"tests/e2e/{name}" for name in SANDBOX_ONLY))
    ours = shlex.split(stages()["test-sandbox"])
    played = [Path(name) for word in ours for name in word.removeprefix("STORIES=").split() if "/" in name]
    assert [name for name in itself if not {Path(name), *Path(name).parents} & {*played}] == []


def test_smoke_tests_stand_in_folders_that_the_target_plays_as_a_whole() -> None:
    marked = [path for path in TESTS.rglob("*.py") if re.search(r"@pytest\.mark\.smoke", path.read_text())]
    helpers = {TESTS / "support" / "smoke.py", TESTS / "project" / "test_smoke_marks.py"}
    places = {path: [path.is_relative_to(ROOT / folder) for folder in smoke.FOLDERS] for path in marked}
    assert {path for path, within in places.items() if not any(within)} <= helpers


def test_a_file_that_is_left_out_is_told_by_one_that_make_test_plays() -> None:
    wrong = []
    mark = re.compile(r"pytest\.mark\.told_by\(\"([^\"]+)\"\)")
    tellers = {path: mark.findall(path.read_text()) for path in TESTS.rglob("test_*.py")}
    for path, names in tellers.items():
        for name in names if path.parts[-2] != "support" else ():
            if not any(path.is_relative_to(ROOT / folder) for folder in smoke.FOLDERS):
                wrong.append(f"{path}: make test-sandbox does not play it")
            if tellers.get(ROOT / name, [name]):
                wrong.append(f"{path}: {name} is not there, or left out itself")
    assert not wrong


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
