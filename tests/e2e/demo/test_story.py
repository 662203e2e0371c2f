"""The demo plays all its chapters to the end, and they come out as the documents say."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from sandbox.demo.chapters import CHAPTERS
from sandbox.demo.client_commands import ClientCommands
from sandbox.demo.commands import NeedsKubectl
from sandbox.demo.recording import lasting, story
from sandbox.demo.tour import ROOT
from tests.support.demo_tour import LEFT_OUT, TOUR_SECONDS, played, titles
from tests.support.documents import blocks
from tests.support.pasting import first_missing

pytestmark = pytest.mark.e2e
PICTURE = ROOT / "docs" / "images" / "reclaim.svg"
CHAPTER_OF_PICTURE = 3


@pytest.mark.timeout(TOUR_SECONDS + 30)
def test_every_chapter_comes_out_as_the_story_says(environment: dict[str, str]) -> None:
    shown = played(environment)
    assert titles(shown) == [
        f"=== {number}. {chapter.title} ===" for number, chapter in CHAPTERS.items() if not chapter.real
    ]
    assert shown.startswith("Left out: chapter 15, which needs real controllers; ")
    assert "\x1b" not in shown
    told = _without_waits(shown)
    words = lasting(_chapter(told)).split()
    # Word by word, so that a difference is seen. `make docs` makes the picture anew.
    assert words == story(PICTURE.read_text(encoding="utf-8")).split()[-len(words) :]
    lines = told.splitlines()
    assert [first_missing(excerpt, told) for excerpt in blocks("README.md", "console")] == ["", ""]
    needing = _needing_kubectl(lines)
    assert len(needing) == len(LEFT_OUT)
    assert all(map(str.startswith, needing, LEFT_OUT.values()))
    last = max(number for number, line in enumerate(lines) if line.startswith("$ "))
    assert lines[last] == "$ kubectl elasticquota get -A"
    # The story ends with the command that shows such a cluster in a browser.
    *rows, empty, browser = lines[last + 2 :]
    assert (empty, browser.split()[-2:]) == ("", ["demo", "--ui"])
    assert [line.split()[:8] for line in rows] == [
        ["astro", "quota", "example.com/card", "4", "3", "10", "-", "1"],
        ["bio", "quota", "example.com/card", "2", "2", "10", "-", "0"],
        ["shop", "quota", "example.com/card", "4", "4", "10", "-", "0"],
    ]


def _without_waits(tour: str) -> str:
    """The tour without the lines that a slow machine adds: what the demo waits for."""
    return re.sub(r"^\.\.\. \d+ s: .*\n", "", tour, flags=re.MULTILINE)


@pytest.mark.smoke
def test_lines_about_waits_are_no_part_of_the_story() -> None:
    assert _without_waits("$ a\n... 4 s: waiting for the end of a\nb\n... c\n") == "$ a\nb\n... c\n"


def _chapter(tour: str) -> str:
    """What the tour printed of the chapter in the picture, without the step to the next example."""
    begin = tour.index(f"=== {CHAPTER_OF_PICTURE}. ")
    return tour[begin : tour.index("# This example is over.", begin)]


def _needing_kubectl(lines: Iterable[str]) -> list[str]:
    """The commands of the tour that the client does not understand, in order."""
    found = []
    for line in lines:
        try:
            if line.startswith("$ "):
                ClientCommands.line(line.removeprefix("$ "))
        except NeedsKubectl as error:
            found.append(error.command)
    return found
