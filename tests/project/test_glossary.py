"""docs/glossary.md: every row is whole, no term comes twice, and what a row names in the code exists."""

from __future__ import annotations

import re
from functools import cache

from tests.project.test_style import ROOT, SOURCES
from tests.support.every import every_case

TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| Term |")
]


CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)


@cache
def classes() -> frozenset[str]:
    """The classes of the sources; read by the worker that runs this file, not by each that collects it."""
    return frozenset(name for path in SOURCES for name in CLASS.findall(path.read_text(encoding="utf-8")))


@every_case("row", ROWS, lambda row: row[0])
def test_a_row_has_meaning_counterpart_and_a_place_that_exists(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    assert row[1].endswith(".")
    (place,) = re.fullmatch(r"`([\w./]+)`", row[3]).groups()  # type: ignore[union-attr]
    assert place in classes() or (ROOT / place).exists()


def test_no_term_is_explained_twice() -> None:
    terms = [row[0] for row in ROWS]
    assert sorted(terms) == sorted(set(terms))
    assert len(terms) > 50
