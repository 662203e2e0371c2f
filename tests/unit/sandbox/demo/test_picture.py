"""The picture of a session shows every line, in order, and its end where nothing moves."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from sandbox.demo.picture import COLUMNS, LINES, animated, timed, wrapped
from sandbox.demo.screen import Row

SVG = "{http://www.w3.org/2000/svg}"
SESSION = [
    Row("output", ""),
    Row("title", "=== 1. Two teams ==="),
    Row("output", ""),
    Row("caption", "# a < b & c"),
    Row("command", "$ kubectl get pods"),
    Row("output", "NAME   STATUS"),
    Row("output", "a      Running"),
]


def lines(picture: str) -> list[str]:
    """The text of the session in a picture, without the name of its window."""
    root = ElementTree.fromstring(picture)
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text") if text.get("class") != "name"]


def test_every_line_is_shown_as_it_was_printed() -> None:
    picture = animated(SESSION, "Teams & pods")
    assert lines(picture) == [row.text for row in SESSION if row.text]
    root = ElementTree.fromstring(picture)
    assert root.findtext(f"{SVG}title") == "Teams & pods"
    assert root.findtext(f"{SVG}desc") == "A recording of a terminal. a < b & c"


def test_the_picture_needs_nothing_else() -> None:
    picture = animated(SESSION, "t")
    assert not re.search(r"<script|href|url\((?!#)|@import|@font-face", picture)
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]


def test_a_command_is_typed_before_its_output_appears() -> None:
    blocks = timed(SESSION)
    typed = next(block for block in blocks if block.style == "command")
    after = blocks[blocks.index(typed) + 1]
    assert typed.begin < typed.end < after.begin
    assert after.lines == ("NAME   STATUS", "a      Running")


def test_the_end_of_a_long_session_is_in_view_without_animation() -> None:
    def moved(count: int) -> str:
        page = ElementTree.fromstring(animated([Row("output", "x")] * count, "t")).find(
            f".//{SVG}g[@class='page']"
        )
        assert page is not None
        return page.get("transform", "")

    assert moved(LINES) == "translate(0 0)"
    assert moved(LINES + 2) == "translate(0 -36)"


def test_rows_that_are_too_long_are_broken_between_words() -> None:
    first, second = wrapped(Row("output", "a" * 60 + " " + "b" * 60))
    assert (first.text, second.text) == ("a" * 60, "    " + "b" * 60)


@given(
    st.lists(
        st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60), max_size=40
    )
)
def test_breaking_a_row_keeps_its_words(words: list[str]) -> None:
    found = wrapped(Row("output", " ".join(words)))
    assert " ".join(row.text for row in found).split() == words
    assert all(len(row.text) <= COLUMNS for row in found)
