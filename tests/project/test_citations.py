"""Code cites only what is in the repository, and a name of a public class means one thing."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.project.test_documents import headings
from tests.project.test_style import FILES, ROOT, SOURCES, named

PUBLIC_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
CITATION = re.compile(r"\bdocs/([\w/-]+\.md)(?:#([\w-]+))?")
# Texts that the work began with and that are not here: documents of the repository say the same.
ELSEWHERE = re.compile(
    r"\bthe seeds?\b|\bseed's\b|\breference,? (?:rule|item|section)|\breference \d"
    r"|\b(?:capacity|coscheduling|topology|load-aware|fair-sharing|trees|reliability|ux) reference\b"
    r"|\bdesign, section\b|\bdesign card\b|\bthe design's\b|\brules? \d",
    re.IGNORECASE,
)


def test_a_document_that_is_cited_exists_with_its_heading() -> None:
    broken = []
    for path in (path for path in FILES if path.suffix == ".py"):
        for match in CITATION.finditer(path.read_text(encoding="utf-8")):
            page = ROOT / "docs" / match[1]
            if not page.exists() or (match[2] and match[2] not in headings(page)):
                broken.append(f"{named(path)}: {match[0]}")
    assert broken == []


def test_the_patterns_find_what_they_are_for() -> None:
    assert ELSEWHERE.search("the reference, rule 13")
    assert ELSEWHERE.search("as the seed says")
    assert not ELSEWHERE.search("docs/quota.md#status")
    assert any(CITATION.search(path.read_text(encoding="utf-8")) for path in SOURCES)


def test_nothing_is_cited_that_is_not_in_the_repository() -> None:
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert found == []


def test_no_two_public_classes_share_a_name() -> None:
    found = defaultdict(list)
    for path in SOURCES:
        for name in PUBLIC_CLASS.findall(path.read_text(encoding="utf-8")):
            found[name].append(named(path))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
