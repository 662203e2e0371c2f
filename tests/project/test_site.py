"""The map of the documents, the navigation of the site and the pages are the same; tables are whole."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "README.md"
GROUPS = ["Tutorials", "How-to guides", "Reference", "Explanation"]
OUTSIDE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "benchmarks/README.md"]
PAGES = [*OUTSIDE, *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def mapped() -> dict[str, list[str]]:
    """The pages of the map by group, as paths of the repository."""
    found = {}
    for section in re.split(r"^## ", MAP.read_text(), flags=re.M)[1:]:
        targets = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \| [^|]+ \| [^|]+\? \|$", section, re.M)
        found[section.partition("\n")[0]] = [posixpath.normpath(f"docs/{target}") for target in targets]
    return found


def test_the_map_has_the_four_groups_and_every_page_once() -> None:
    found = mapped()
    assert list(found) == GROUPS
    pages = [page for group in found.values() for page in group]
    expected = [page for page in PAGES if page != "docs/README.md" and "/adr/0" not in page]
    assert sorted(pages) == sorted(expected)


def test_the_navigation_is_the_map() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    nav: dict[str, list[str]] = {}
    group = ""
    for line in text.partition("\nnav:\n")[2].splitlines():
        if match := re.fullmatch(r"  - ([\w -]+):", line):
            group = match[1]
        elif group and (match := re.search(r"([\w./-]+\.md)$", line)):
            nav.setdefault(group, []).append(match[1])
    assert nav == mapped()


def test_every_decision_is_listed() -> None:
    listed = re.findall(r"\]\((0[\w-]+\.md)\)", (ROOT / "docs" / "adr" / "README.md").read_text())
    assert listed == sorted(page.rpartition("/")[2] for page in PAGES if "/adr/0" in page)


def stray_rows(text: str) -> Iterator[int]:
    """Numbers of the lines that look like a row and belong to no table: no head and rule above them."""
    fenced = in_table = False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or not line.startswith("|"):
            in_table = False
            continue
        following = lines[number] if number < len(lines) else ""
        above = lines[number - 2] if number > 1 else ""
        in_table = in_table or (not above.strip() and bool(re.fullmatch(r"\|(?:\s*:?-+:?\s*\|)+", following)))
        if not in_table:
            yield number


@pytest.mark.parametrize("page", PAGES)
def test_every_row_belongs_to_a_table(page: str) -> None:
    assert list(stray_rows((ROOT / page).read_text())) == []


def test_a_row_after_a_list_is_found() -> None:
    text = "| a |\n|---|\n| 1 |\n\n- item\n| 2 |\n"
    assert list(stray_rows(text)) == [6]
