"""docs/seeds.md lists every statement of the designs that Muster implements once, with tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.every import every_case

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
# How many statements each of the five designs has.
COUNTS = (23, 31, 23, 32, 26)
NUMBER = re.compile(r"\d\.\d+")


def rows(text: str) -> list[list[str]]:
    """The cells of all rows whose first cell holds numbers of statements."""
    split = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return [cells for cells in split if NUMBER.match(cells[0])]


PURPOSE, _, STATEMENTS = TEXT.partition("## Where we differ on purpose")[2].partition("\n## ")
DIFFERENT, LISTED = rows(PURPOSE), rows(STATEMENTS)


@cache
def functions(path: Path) -> frozenset[str]:
    """The tests that a module defines."""
    return frozenset(
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    )


def problem(named: str) -> str:
    """Why what a row names is no test; empty if it is one."""
    file, _, function = named.partition("::")
    path = ROOT / file
    if not path.is_file():
        return f"{named}: there is no such file"
    if path.suffix == ".yaml":
        return "" if file.startswith("tests/scenarios/") and not function else f"{named}: no scenario"
    name = function.partition("[")[0]
    return "" if name.startswith("test_") and name in functions(path) else f"{named}: no test of that name"


def test_every_statement_is_listed_once_in_order() -> None:
    expected = [f"{part}.{n}" for part, count in enumerate(COUNTS) for n in range(1, count + 1)]
    assert [cells[0] for cells in LISTED] == expected


@every_case("cells", DIFFERENT + LISTED, lambda cells: f"row {cells[0]}")
def test_a_row_says_all_and_names_tests_that_exist(cells: list[str]) -> None:
    assert len(cells) in (4, 6)
    assert "PENDING" not in "".join(cells)
    given = cells if len(cells) == 6 else [cells[0], cells[1], cells[3]]
    assert all(given)
    named = re.findall(r"`([^`]+)`", cells[-1])
    assert named
    assert [found for test in named if (found := problem(test))] == []


def test_deliberate_differences_are_listed_in_both_tables() -> None:
    listed = {cells[0]: cells[2] for cells in LISTED}
    numbers = {number for cells in DIFFERENT for number in NUMBER.findall(cells[0])}
    assert {number for number, ours in listed.items() if "see above" in ours} == numbers


@pytest.mark.parametrize(
    "named",
    [
        "tests/project/test_seeds.py::test_that_is_not_there",
        "tests/project/test_seeds.py",
        "tests/project/nowhere.py::test_x",
        "tests/scenarios/capacity/nothing.yaml",
        "charts/muster/values.yaml",
    ],
)
def test_a_name_that_is_no_test_is_reported(named: str) -> None:
    assert problem(named)


def test_parametrised_tests_may_be_named() -> None:
    assert problem("tests/project/test_seeds.py::test_a_name_that_is_no_test_is_reported[some case]") == ""
